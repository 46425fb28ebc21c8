//! A headless Chromium, spoken to over two pipes in its DevTools protocol.
//!
//! Needs nothing but the browser: with `--remote-debugging-pipe` it reads messages from descriptor 3 and
//! writes them to 4, as JSON that ends with a zero byte. A shell connects these to its standard input
//! and output. Everything here panics when the browser does not do as told: it serves tests only.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The longest that the browser may take for an answer.
const PATIENCE: Duration = Duration::from_secs(600);

/// A running browser with one page.
pub struct Chrome {
    process: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    folder: PathBuf,
    session: Option<String>,
    last: u64,
    /// What the page did wrong: exceptions, and requests that leave the machine.
    pub complaints: Vec<String>,
}

/// The browser's path, or `None` where there is none: `DAHL_CHROMIUM`, else one of the usual names.
pub fn find() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("DAHL_CHROMIUM") {
        return Some(path.into());
    }
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let files = names
        .iter()
        .flat_map(|n| folders.iter().map(move |f| f.join(n)));
    files.into_iter().find(|file| file.is_file())
}

impl Chrome {
    /// Starts the browser with an empty page of this size. It owns the folder: both go together.
    pub fn start(program: &Path, folder: PathBuf, (width, height): (u32, u32)) -> Chrome {
        let profile = folder.join("profile");
        let mut process = Command::new("sh")
            .arg("-c")
            .arg("exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null")
            .arg(program)
            .args([
                "--headless",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
            ])
            .args([
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
            ])
            .args([
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell starts the browser");
        let input = process.stdin.take().expect("a pipe");
        let output = process.stdout.take().expect("a pipe");
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("messages are JSON");
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut chrome = Chrome {
            process,
            input,
            messages,
            folder,
            session: None,
            last: 0,
            complaints: vec![],
        };
        let target = chrome.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = chrome.call("Target.attachToTarget", attach);
        chrome.session = Some(session["sessionId"].as_str().expect("a session").into());
        for domain in ["Page", "Runtime", "Network"] {
            chrome.call(&format!("{domain}.enable"), json!({}));
        }
        chrome.resize(width, height);
        chrome
    }

    /// Calls a method of the protocol.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).expect("the browser listens");
        loop {
            let answer = self.messages.recv_timeout(PATIENCE);
            let answer = answer.unwrap_or_else(|e| panic!("no answer to {method}: {e}"));
            if answer["id"] == json!(self.last) {
                let error = &answer["error"];
                assert!(error.is_null(), "{method}: {error}");
                return answer["result"].clone();
            }
            self.notice(&answer);
        }
    }

    fn notice(&mut self, event: &Value) {
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                let details = &event["params"]["exceptionDetails"];
                self.complaints
                    .push(details["exception"]["description"].to_string());
            }
            Some("Network.requestWillBeSent") => {
                let url = event["params"]["request"]["url"].as_str().unwrap_or("");
                if !["file:", "data:", "blob:", "about:"]
                    .iter()
                    .any(|s| url.starts_with(s))
                {
                    self.complaints.push(format!("a request to {url}"));
                }
            }
            _ => {}
        }
    }

    /// Opens a file and waits until it has drawn its first frame.
    pub fn open(&mut self, page: &Path) {
        self.load(page);
        self.wait("window.dahl?.frames > 0");
    }

    /// Opens a file that draws nothing by itself.
    pub fn load(&mut self, page: &Path) {
        self.call(
            "Page.navigate",
            json!({ "url": format!("file://{}", page.display()) }),
        );
        self.wait("location.protocol === 'file:' && document.readyState === 'complete'");
    }

    /// Sets the size of the page.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// The value of an expression in the page; a promise is awaited.
    pub fn eval(&mut self, expression: &str) -> Value {
        let options =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", options);
        let error = &answer["exceptionDetails"];
        assert!(error.is_null(), "{expression}: {error}");
        answer["result"]["value"].clone()
    }

    /// The value of an expression that is a number.
    pub fn number(&mut self, expression: &str) -> f64 {
        let value = self.eval(expression);
        value
            .as_f64()
            .unwrap_or_else(|| panic!("{expression} is {value}"))
    }

    /// Waits until an expression holds.
    pub fn wait(&mut self, expression: &str) {
        let began = Instant::now();
        while self.eval(&format!("!!({expression})")) != json!(true) {
            assert!(began.elapsed() < PATIENCE, "in vain: {expression}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the view stands still and what it shows is drawn: two frames at least, so that a new size of
    /// the window has come through.
    pub fn settle(&mut self) {
        self.eval(
            "new Promise((done) => { let frames = 0; const look = () => \
             frames++ > 1 && dahl.still ? done() : requestAnimationFrame(look); look(); })",
        );
    }

    /// Moves the pointer.
    pub fn point(&mut self, x: f64, y: f64) {
        self.mouse("mouseMoved", x, y, json!({}));
    }

    /// Presses and lets go.
    pub fn click(&mut self, x: f64, y: f64) {
        self.drag((x, y), (x, y));
    }

    /// Drags from one place to another.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.point(from.0, from.1);
        let left = json!({ "button": "left", "buttons": 1, "clickCount": 1 });
        self.mouse("mousePressed", from.0, from.1, left.clone());
        if from != to {
            let way = |t: f64| (from.0 + (to.0 - from.0) * t, from.1 + (to.1 - from.1) * t);
            for t in [0.25, 0.5, 1.0] {
                self.mouse("mouseMoved", way(t).0, way(t).1, left.clone());
            }
        }
        self.mouse("mouseReleased", to.0, to.1, left);
    }

    /// Turns the wheel.
    pub fn wheel(&mut self, x: f64, y: f64, by: f64) {
        self.mouse("mouseWheel", x, y, json!({ "deltaX": 0, "deltaY": by }));
    }

    fn mouse(&mut self, kind: &str, x: f64, y: f64, more: Value) {
        let mut event = json!({ "type": kind, "x": x, "y": y });
        for (key, value) in more.as_object().into_iter().flatten() {
            event[key] = value.clone();
        }
        self.call("Input.dispatchMouseEvent", event);
    }

    /// Presses a key by its name, such as `c` or `Enter`.
    pub fn key(&mut self, key: &str) {
        let mut down = json!({ "type": "keyDown", "key": key });
        match key {
            "Enter" => down["text"] = json!("\r"),
            _ if key.chars().count() == 1 => down["text"] = json!(key),
            _ => {}
        }
        self.call("Input.dispatchKeyEvent", down);
        self.call(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": key }),
        );
    }

    /// Types a text where the cursor is.
    pub fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }
}

impl Drop for Chrome {
    fn drop(&mut self) {
        self.session = None;
        // An answer may never come; the process is ended in any case.
        let _ = self
            .input
            .write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
