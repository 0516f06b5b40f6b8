//! Lets the web pages be embedded: `web/dist` exists (perhaps empty) before the crate is compiled,
//! and a change in it compiles the crate again.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let dist = Path::new("../../web/dist");
    // Cargo compiles again every time when it watches what is not there. A read-only source tree
    // has its pages built.
    if !dist.exists() {
        let _ = std::fs::create_dir_all(dist);
    }
    println!("cargo:rerun-if-changed=../../web/dist");
}
