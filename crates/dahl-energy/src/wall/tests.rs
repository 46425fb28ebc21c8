use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use super::*;
use crate::ledger::{Ledger, Meters};

fn meter(text: &str) -> WallMeter {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("dahl-wall-{}-{name}", std::process::id()));
    std::fs::write(&path, text).expect("a file");
    path
}

#[test]
fn units_keys_and_mistakes() {
    assert_eq!(meter("file:/a").count("20.5\n").unwrap(), 20_500_000);
    assert_eq!(meter("file:/a").count("12:00:01, 7; 3").unwrap(), 3_000_000);
    let plug = meter("http://10.0.0.7/status?id=0#meters.0.power:mW");
    assert_eq!(plug.quantity, Quantity::Power { watts: 1e-9 });
    assert_eq!(
        plug.count("{\"meters\":[{\"power\":\"41.25\"}]}").unwrap(),
        41_250_000
    );
    let Quantity::Counter { joules, .. } = meter("file:/a#:kWh").quantity else {
        panic!("a counter");
    };
    assert!((joules * COUNTS - 3.6e6).abs() < 1e-6);
    for (text, says) in [
        ("tcp://x", "file:PATH or http://HOST/PATH"),
        ("file:", "file:PATH"),
        ("https://x/", "without TLS"),
        ("http:///x", "http://HOST/PATH"),
        ("http://a:b@x/", "passwords"),
        ("file:/a#:watt", "unit of a meter"),
    ] {
        let why = text.parse::<WallMeter>().expect_err(text);
        assert!(why.contains(says), "{text}: {why}");
    }
    for text in ["", "watts", "-3", "nan", "1e30"] {
        assert!(meter("file:/a").count(text).is_err(), "{text:?}");
    }
    assert!(
        plug.count("{\"meters\":[]}")
            .unwrap_err()
            .text
            .contains("no \"0\"")
    );
}

#[test]
fn a_line_that_is_being_written_does_not_count() {
    for (text, last) in [
        ("20.5", "20.5"),
        ("20.5\n", "20.5"),
        ("1,20.5\n2,21.5\n", "2,21.5"),
        ("1,20.5\n2,21.5\n3,2", "2,21.5"),
    ] {
        let path = file("line", text);
        assert_eq!(last_line(&path).expect("a file").0, last, "{text:?}");
    }
    let long = "1,20.0\n".repeat(5000) + "2,30.0\n";
    assert_eq!(last_line(&file("long", &long)).expect("a file").0, "2,30.0");
}

#[test]
fn what_the_wall_says_is_the_whole() {
    let path = file("whole", "40\n");
    let (wall, finding) = meter(&format!("file:{}", path.display())).attach();
    assert!(finding.trouble.is_none(), "{finding:?}");
    let sys = crate::tests::made_up::Sys::new();
    sys.zone("intel-rapl:0", "package-0", 0);
    let mut meters = Meters::discover(&sys.tree(), false);
    meters.meters.push(wall);
    meters.findings.push(finding);
    let mut ledger = Ledger::new(meters, None, Seconds(1.0));
    ledger.sample(Seconds(0.0));
    sys.set("intel-rapl:0", 500_000_000);
    ledger.sample(Seconds(4.0));
    let energy = ledger.energy();
    // 40 W for 4 s; the processor says 500 J, which then is not believed to be beside it.
    assert!(
        (energy.joules().expect("measured").0 - 160.0).abs() < 1e-9,
        "{energy}"
    );
    assert!(
        energy.source().starts_with("measured (wall: file:"),
        "{energy}"
    );
    // The file was written once: two looks at it are one reading.
    assert_eq!(ledger.readings(), 1);
}

#[test]
fn a_plug_answers_and_is_asked_again() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = std::thread::spawn(move || {
        for body in ["{\"power\": 41.5}", "oops"] {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
            let first = lines.next().expect("a line").expect("a line");
            assert_eq!(first, "GET /status HTTP/1.0");
            // All of the request, or closing would reset the connection.
            assert!(
                lines
                    .by_ref()
                    .map_while(Result::ok)
                    .any(|line| line.is_empty())
            );
            let status = if body == "oops" { "500 Oops" } else { "200 OK" };
            write!(stream, "HTTP/1.1 {status}\r\nServer: x\r\n\r\n{body}").expect("written");
        }
    });
    let plug = meter(&format!("http://127.0.0.1:{port}/status#power"));
    let Place::Http(url) = &plug.place else {
        panic!("a plug");
    };
    let body = url.get().expect("an answer");
    assert_eq!(plug.count(&body).expect("a number"), 41_500_000);
    let why = plug.check().expect_err("it failed");
    assert!(why.text.contains("500 Oops"), "{why}");
    server.join().expect("the server ends");
}

#[test]
fn old_values_are_no_values() {
    let mut latest = Latest::default();
    assert!(
        latest
            .now(None)
            .unwrap_err()
            .text
            .contains("not answered yet")
    );
    latest.keep(Ok(7));
    assert_eq!(latest.now(Some(Duration::from_secs(4))), Ok(7));
    assert!(latest.now(Some(Duration::from_secs(6))).is_err());
    latest.keep(Err(Trouble::new(TroubleKind::Failed, "gone")));
    assert_eq!(latest.now(Some(Duration::ZERO)).unwrap_err().text, "gone");
    assert_eq!(latest.readings, 1);
}
