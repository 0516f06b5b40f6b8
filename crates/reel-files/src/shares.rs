//! The share of a class, as it is written: one number, for which the server is told the whole
//! table. Pure.

use crate::problem::Problem;
use crate::server::ClassFacts;

/// The built-in class of work without a reservation, which has what the others leave.
const REST: &str = "aperiodic";

/// The thousandths of a line: digits, as the file shows them.
pub(crate) fn permille(line: &str) -> Result<u32, Problem> {
    let number = line.parse::<u32>().ok().filter(|number| number.to_string() == line);
    number.ok_or_else(|| {
        Problem::invalid(format!("{line:.80?} is no share; write thousandths of a member, such as 600"))
    })
}

/// The classes with another share of one of them; `None` if there is no such class.
///
/// All shares make 1000, and a file has only one of them. So `aperiodic` gives or gets the
/// difference, and its own share is taken as it is written. Whether the table is valid is the
/// server's decision.
pub(crate) fn with_share(
    mut classes: Vec<ClassFacts>,
    name: &str,
    share_permille: u32,
) -> Option<Vec<ClassFacts>> {
    let at = classes.iter().position(|class| *class.name == *name)?;
    let before = std::mem::replace(&mut classes[at].share_permille, share_permille);
    if name != REST
        && let Some(rest) = classes.iter_mut().find(|class| *class.name == *REST)
    {
        // A share of 0, which servers refuse, if it has not enough.
        rest.share_permille = rest.share_permille.saturating_add(before).saturating_sub(share_permille);
    }
    Some(classes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(shares: &[(&str, u32)]) -> Vec<ClassFacts> {
        let class = |(name, share_permille): &(&str, u32)| ClassFacts {
            name: (*name).into(),
            kind: "periodic".to_owned(),
            share_permille: *share_permille,
            network_permille: Some(250),
        };
        shares.iter().map(class).collect()
    }

    fn shares_after(name: &str, share_permille: u32) -> Vec<u32> {
        let before = table(&[("periodic", 700), ("interactive", 150), ("aperiodic", 150)]);
        let after = with_share(before, name, share_permille).expect("a class");
        assert!(after.iter().all(|class| class.network_permille == Some(250)), "the network stays as it is");
        after.iter().map(|class| class.share_permille).collect()
    }

    #[test]
    fn what_a_class_gets_or_gives_is_that_of_aperiodic() {
        assert_eq!(shares_after("periodic", 600), [600, 150, 250]);
        assert_eq!(shares_after("interactive", 299), [700, 299, 1]);
        assert_eq!(shares_after("periodic", 700), [700, 150, 150]);
        assert_eq!(shares_after("periodic", 0), [0, 150, 850]);
    }

    #[test]
    fn what_cannot_be_is_left_to_the_server_to_refuse() {
        assert_eq!(shares_after("periodic", 850), [850, 150, 0]);
        assert_eq!(shares_after("periodic", u32::MAX), [u32::MAX, 150, 0]);
        assert_eq!(shares_after("aperiodic", 200), [700, 150, 200], "they make more than 1000");
        assert_eq!(with_share(table(&[("periodic", 1000)]), "gold", 1), None);
        let without_rest = with_share(table(&[("gold", 1000)]), "gold", 900).expect("a class");
        assert_eq!(without_rest, table(&[("gold", 900)]));
        let huge = with_share(table(&[("gold", u32::MAX), (REST, u32::MAX)]), "gold", 1).expect("a class");
        assert_eq!(huge, table(&[("gold", 1), (REST, u32::MAX - 1)]));
    }

    #[test]
    fn a_share_is_written_as_it_is_read() {
        assert_eq!(permille("600"), Ok(600));
        assert_eq!(permille("0"), Ok(0));
        for line in ["", "x", "-1", "+600", "0600", "60.5", "600 ", "60%", "1 2", "4294967296", "\u{661}"] {
            assert_eq!(
                permille(line).map_err(|problem| problem.errno),
                Err(rustix::io::Errno::INVAL),
                "{line}"
            );
        }
    }
}
