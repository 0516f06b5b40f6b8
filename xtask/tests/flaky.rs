//! `scripts/flaky`: the list of tests that passed only when they ran again.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A repository that has nothing but the script and its list.
struct Repository(tempfile::TempDir);

impl Repository {
    fn new(list: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["scripts", ".ci"] {
            fs::create_dir(dir.path().join(name)).expect("created");
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/flaky");
        fs::copy(script, dir.path().join("scripts/flaky")).expect("copied");
        fs::write(dir.path().join(".ci/flaky.txt"), list).expect("written");
        Self(dir)
    }

    /// What the script says, and whether it succeeds. `log` is what a run printed.
    fn flaky(&self, log: Option<&str>) -> (String, bool) {
        let mut command = Command::new("bash");
        command.arg(self.0.path().join("scripts/flaky"));
        if let Some(log) = log {
            let path = self.0.path().join("log");
            fs::write(&path, log).expect("written");
            command.arg(path);
        }
        let output = command.output().expect("bash");
        (String::from_utf8(output.stdout).expect("text"), output.status.success())
    }

    fn entries(&self) -> Vec<String> {
        let list = fs::read_to_string(self.0.path().join(".ci/flaky.txt")).expect("the list");
        list.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }
}

#[test]
fn a_flaky_test_is_listed_once_with_its_date() {
    let repository = Repository::new("# the list\n");
    assert_eq!(repository.flaky(None), (String::new(), true));
    let log = "ok\nflaky test: reel/reel a::b: passed at try 2 of 3\n| flaky test: quoted: passed at try 2 of 3\n\
        flaky test: seeking.test a title plays: yes (phone): passed at try 3 of 3\n";
    for _ in 0..2 {
        let (said, is_good) = repository.flaky(Some(log));
        assert!(is_good && said.contains("listed as flaky: reel/reel a::b -- not understood yet"), "{said}");
    }
    let entries = repository.entries();
    assert_eq!(entries.len(), 2, "{entries:?}");
    assert!(entries[1].ends_with(" seeking.test a title plays: yes (phone) -- not understood yet"));
}

#[test]
fn an_old_test_many_tests_and_a_line_that_cannot_be_read_are_errors() {
    let line = |day: &str, test: &str| format!("{day} 0123456789ab {test} -- a reason\n");
    let (said, is_good) = Repository::new(&line("2020-02-29", "a")).flaky(None);
    assert!(!is_good && said.contains("error: a is flaky for more than 7 days"), "{said}");
    let many: String = (0..6).map(|number| line("2999-01-01", &number.to_string())).collect();
    let (said, is_good) = Repository::new(&many).flaky(None);
    assert!(!is_good && said.contains("error: 6 tests are flaky, and at most 5 may be"), "{said}");
    for broken in ["2020-13-01 0123456789ab a -- b\n", "2020-01-01 0123456789ab a\n"] {
        let (said, is_good) = Repository::new(broken).flaky(None);
        assert!(!is_good && said.contains("this is not DATE COMMIT TEST -- WHY"), "{said}");
    }
}
