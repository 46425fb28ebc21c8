//! An experiment whose engine is a shell: runs take no time.

use std::fs;
use std::path::{Path, PathBuf};

/// A peer that does nothing, quickly.
const PEER: &str = r#"while read -r line; do case "$line" in
*'"load"'*) echo '{"ready":{"engine":"shell 1"}}' ;;
*'"run"'*) echo '{"began":{}}'; echo '{"ended":{"steps":10,"images":320,"loss":1.5,"measures":{"made_up":7}}}' ;;
*) exit 0 ;;
esac; done"#;

/// An empty folder for a test.
pub fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("experiment-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder");
    path
}

/// An experiment of four cells, of which two have no engine.
pub fn file(folder: &Path, blocks: u32) -> String {
    let path = folder.join("tiny.toml");
    let text = format!(
        "version = 1\nname = \"tiny\"\nquestion = \"Does it run?\"\n[design]\nblocks = {blocks}\nwindow = \"1 ms\"\nidle = \"1 ms\"\n\
         [factors]\nengine = [\"shell\", \"missing\"]\nthreads = [1, 2]\n\
         [engine.shell]\ncommand = [\"sh\", \"-c\", '''{PEER}''']\n[engine.missing]\ncommand = [\"no-such-engine\"]\n\
         [[figure]]\nx = \"threads\"\ny = \"images_per_second\"\nseries = \"engine\"\n\
         [[figure]]\nkind = \"bar\"\nx = \"engine\"\ny = \"cpu_seconds_per_image\"\npanels = \"threads\"\n\
         [[table]]\nrows = \"threads\"\ncolumns = \"engine\"\ncell = \"joules_per_image\"\n"
    );
    fs::write(&path, text).expect("a file");
    path.display().to_string()
}
