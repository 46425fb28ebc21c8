//! Compiles the shim against the headers of the StarPU that pkg-config finds, and links that one.

fn main() {
    println!("cargo:rerun-if-changed=src/shim.c");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    #[cfg(feature = "link")]
    if let Err(message) = link() {
        eprintln!("{message}");
        std::process::exit(1);
    }
}

/// Versions that are looked for, the newest first.
#[cfg(feature = "link")]
const NAMES: [&str; 2] = ["starpu-1.4", "starpu-1.3"];

#[cfg(feature = "link")]
fn link() -> Result<(), String> {
    let name = NAMES.into_iter().find(|n| ask(n, "--exists").is_some());
    let name = name.ok_or(
        "StarPU is not there: pkg-config knows neither starpu-1.4 nor starpu-1.3. Install it (Debian: apt install \
         libstarpu-dev pkg-config gcc), or set PKG_CONFIG_PATH to the folder of its .pc file",
    )?;
    let mut shim = cc::Build::new();
    shim.file("src/shim.c").warnings(true).extra_warnings(true);
    for folder in parts(name, "--cflags-only-I", "-I") {
        // Their headers' warnings are not ours to mend.
        shim.flag("-isystem").flag(folder);
    }
    let compiled = shim.try_compile("dahl_starpu_shim");
    compiled.map_err(|e| format!("the shim for {name} does not compile: {e}"))?;
    for folder in parts(name, "--libs-only-L", "-L") {
        println!("cargo:rustc-link-search=native={folder}");
    }
    println!("cargo:rustc-link-lib={name}");
    Ok(())
}

/// What pkg-config answers.
#[cfg(feature = "link")]
fn ask(name: &str, question: &str) -> Option<String> {
    let answer = std::process::Command::new("pkg-config")
        .args([question, name])
        .output()
        .ok()
        .filter(|a| a.status.success())?;
    String::from_utf8(answer.stdout).ok()
}

/// The words of an answer, without what each begins with.
#[cfg(feature = "link")]
fn parts(name: &str, question: &str, prefix: &str) -> Vec<String> {
    let answer = ask(name, question).unwrap_or_default();
    let words = answer.split_whitespace();
    words
        .filter_map(|w| Some(w.strip_prefix(prefix)?.to_owned()))
        .collect()
}
