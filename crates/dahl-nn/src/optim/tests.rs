//! Names, defaults, ranges and the written form of optimisers.

use super::*;

#[test]
fn defaults_are_pytorchs() {
    let parse = |name| Optimizer::parse(name, &Given::default()).unwrap();
    assert_eq!(
        parse("sgd"),
        Sgd {
            momentum: 0.0,
            nesterov: false,
            weight_decay: 0.0,
            no_bias_decay: false,
        }
        .into()
    );
    let (betas, eps) = ([0.9, 0.999], 1e-8);
    assert_eq!(
        parse("adam"),
        Adam {
            betas,
            eps,
            weight_decay: 0.0,
            no_bias_decay: false,
        }
        .into()
    );
    assert_eq!(
        parse("adamw"),
        AdamW {
            betas,
            eps,
            weight_decay: 0.01,
            no_bias_decay: false,
        }
        .into()
    );
    assert_eq!(parse("sgd").state_slots(), [""; 0]);
    assert_eq!(parse("adamw").state_slots(), ["exp_avg", "exp_avg_sq"]);
    let given = Given::default()
        .set("momentum", Some(0.9))
        .set("nesterov", Some(true));
    assert_eq!(
        Optimizer::parse("sgd", &given).unwrap().state_slots(),
        ["momentum_buffer"]
    );
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let error = |name, given| Optimizer::parse(name, &given).unwrap_err().to_string();
    assert!(error("rmsprop", Given::default()).contains("sgd, adam, adamw"));
    assert_eq!(
        error("adam", Given::default().set("momentum", Some(0.9))),
        "adam has no momentum; leave it out"
    );
    assert!(error("sgd", Given::default().set("betas", Some([0.9, 0.9]))).contains("no betas"));
    assert!(
        error("sgd", Given::default().set("nesterov", Some(true))).contains("momentum above 0")
    );
    for bad in [-0.1, f64::NAN, f64::INFINITY] {
        assert!(error("sgd", Given::default().set("momentum", Some(bad))).contains("momentum is"));
        for name in ["sgd", "adam", "adamw"] {
            let given = Given::default().set("weight_decay", Some(bad));
            assert!(error(name, given).contains("weight decay is"));
        }
        assert!(
            error("adamw", Given::default().set("weight_decay", Some(bad))).contains("decay is")
        );
        assert!(error("adam", Given::default().set("eps", Some(bad))).contains("epsilon is"));
        assert!(check_lr(bad).is_err());
    }
    for bad in [-0.1, 1.0, f64::NAN] {
        assert!(
            error("adam", Given::default().set("betas", Some([0.9, bad]))).contains("beta 2 is")
        );
    }
    assert!(check_lr(0.0).is_ok());
    for name in ["sgd", "adam", "adamw"] {
        let given = |decay| {
            let given = Given::default().set("no_bias_decay", Some(true));
            given.set("weight_decay", Some(decay))
        };
        assert!(error(name, given(0.0)).contains("give a weight decay above 0"));
        assert!(Optimizer::parse(name, &given(0.1)).is_ok());
    }
}

#[test]
fn it_can_be_written_down() {
    let adam = Optimizer::parse("adamw", &Given::default()).unwrap();
    let text = serde_json::to_string(&adam).unwrap();
    assert_eq!(
        text,
        r#"{"name":"adamw","betas":[0.9,0.999],"eps":1e-8,"weight_decay":0.01}"#
    );
    assert_eq!(serde_json::from_str::<Optimizer>(&text).unwrap(), adam);
}
