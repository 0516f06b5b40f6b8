//! A test that waits for the time that a lease lasts.

#[test]
#[ignore = "night"]
fn an_outlet_ends_with_its_lease() {
    super::an_outlet_ends_with_its_lease();
}
