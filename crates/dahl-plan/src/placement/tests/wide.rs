//! Problems with too many ideals to list, and callers without time.

use super::super::{PlacementProblem, solve};
use super::check;
use super::random::{Dice, wide};

#[test]
fn a_problem_too_wide_to_prove_gets_a_good_answer_and_an_honest_bound() {
    let text = wide(&mut Dice::new(7), 24, 6).to_string();
    let problem = PlacementProblem::from_json(&text).expect("a sound problem");
    let mut asked = 0;
    let mut patience = || {
        asked += 1;
        asked < 40
    };
    let answer = solve(&problem, &mut patience).expect("a placement");
    check(&problem, &answer);
    assert!(answer.lower_bound > 0.0);
    let gap = answer.max_load / answer.lower_bound - 1.0;
    assert!(
        gap < 0.10,
        "{} against {}",
        answer.max_load,
        answer.lower_bound
    );
}

#[test]
fn without_any_time_there_is_still_an_answer_if_a_cpu_can_take_all() {
    let text = wide(&mut Dice::new(8), 5, 4).to_string();
    let problem = PlacementProblem::from_json(&text).expect("a sound problem");
    let hurried = solve(&problem, &mut || false).expect("a placement");
    check(&problem, &hurried);
    let patient = solve(&problem, &mut || true).expect("a placement");
    check(&problem, &patient);
    assert!(patient.is_optimal());
    assert!(hurried.lower_bound <= patient.max_load && patient.max_load <= hurried.max_load);
}

#[test]
fn one_time_that_dwarfs_the_others_does_not_blur_them() {
    let text = r#"{"maxSizePerFPGA": 1, "maxFPGAs": 2, "maxCPUs": 1, "nodes": [
        {"id":1,"supportedOnFpga":1,"cpuLatency":1e200,"fpgaLatency":1.25,"isBackwardNode":0,"size":1},
        {"id":2,"supportedOnFpga":1,"cpuLatency":1e-3,"fpgaLatency":1e-3,"isBackwardNode":0,"size":1},
        {"id":3,"supportedOnFpga":1,"cpuLatency":1e200,"fpgaLatency":1.5,"isBackwardNode":0,"size":1}],
        "edges": [{"sourceId":1,"destId":2,"cost":0.125},{"sourceId":2,"destId":3,"cost":0.25}]}"#;
    let problem = PlacementProblem::from_json(text).expect("a sound problem");
    let answer = solve(&problem, &mut || true).expect("a placement");
    check(&problem, &answer);
    assert!(answer.is_optimal() && answer.max_load == 1.75, "{answer:?}");
}
