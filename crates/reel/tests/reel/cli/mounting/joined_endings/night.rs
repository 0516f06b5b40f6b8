//! Tests that wait for half a minute: for the end of a lease, and until a server counts as silent.

use reel_testkit::run_in_own_mounts;

#[test]
#[ignore = "night"]
fn a_killed_mount_leaves_no_file_of_a_joined_stream_and_nothing_reserved() {
    run_in_own_mounts("cli::mounting::joined_endings::killed_mount");
}

#[test]
#[ignore = "night"]
fn a_joined_stream_fails_when_its_server_is_killed_and_none_runs() {
    run_in_own_mounts("cli::mounting::joined_endings::no_server");
}
