//! Classes of traffic: how requests are served, and what share of a device they may claim.

use crate::limits::{CLASS_NAME_BYTES_MAX, CLASSES_MAX};
use std::fmt;

/// The deadline of a request that is not needed at a fixed time.
pub const DEADLINE_NONE_NS: u64 = u64::MAX;

/// Names a class: its place in the [`ClassTable`].
///
/// Every request carries its class from the client's connection down to the member's queue.
/// Requests of different classes are never merged (Prism, ACM Multimedia 2001, section 4). The
/// three built-in classes are always there; a table may add more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(u8);

/// How the requests of a class are served: the three kinds of traffic of Prism, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Has deadlines that are reserved for: audio and video of an admitted session.
    Periodic,
    /// An interactive client waits: short response time, no reservation.
    Interactive,
    /// Everything else: downloads, ingest, checks. Throughput without starvation.
    Aperiodic,
}

/// One class as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSpec {
    /// Its name in configuration, metrics and messages: lower-case letters, digits and `-`.
    pub name: String,
    /// How its requests are served.
    pub kind: Kind,
    /// Its share of every device under scarcity, in thousandths; the shares of all classes make
    /// 1000. What a class does not use is lent to the others.
    pub share_permille: u32,
    /// The same for the network. A link takes back what it lent within milliseconds, has no seeks
    /// and no member to lose, so more of it can be promised.
    pub network_permille: u32,
}

/// All classes and their shares: data, changeable while the server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassTable {
    specs: Vec<ClassSpec>,
}

/// A rule for class tables that was broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these classes are not valid: {0}")]
pub struct ClassTableError(String);

impl ClassSpec {
    /// A class with the same share of the network as of everything else.
    pub fn new(name: impl Into<String>, kind: Kind, share_permille: u32) -> ClassSpec {
        ClassSpec { name: name.into(), kind, share_permille, network_permille: share_permille }
    }
}

impl Class {
    /// Admitted viewers.
    pub const PERIODIC: Class = Class(0);
    /// Browsing, artwork, the first segment of a start.
    pub const INTERACTIVE: Class = Class(1);
    /// Downloads, uploads, scrub, rebuild.
    pub const APERIODIC: Class = Class(2);

    /// The class at this place of a table; `None` if no table has so many.
    pub const fn new(index: usize) -> Option<Class> {
        if index < CLASSES_MAX { Some(Class(index as u8)) } else { None }
    }

    /// The place in the table; always below [`CLASSES_MAX`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Kind {
    /// The name used in metrics, configuration and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Periodic => "periodic",
            Kind::Interactive => "interactive",
            Kind::Aperiodic => "aperiodic",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Kind> {
        [Kind::Periodic, Kind::Interactive, Kind::Aperiodic].into_iter().find(|kind| kind.name() == name)
    }
}

impl ClassTable {
    /// Checks a table: the first three classes are the built-in ones, names are unique, shares make
    /// 1000.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn new(specs: Vec<ClassSpec>) -> Result<ClassTable, ClassTableError> {
        let error = |text: String| Err(ClassTableError(text));
        if specs.len() > CLASSES_MAX {
            return error(format!(
                "there are {} of them, and at most {CLASSES_MAX} are allowed",
                specs.len()
            ));
        }
        for (index, built_in) in Self::default().specs.iter().enumerate() {
            match specs.get(index) {
                Some(spec) if spec.name == built_in.name && spec.kind == built_in.kind => {}
                _ => {
                    let (name, kind) = (&built_in.name, built_in.kind.name());
                    return error(format!(
                        "class {index} must be `{name}`, of kind {kind}; add your own after it"
                    ));
                }
            }
        }
        for (index, spec) in specs.iter().enumerate() {
            let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            if spec.name.is_empty()
                || spec.name.len() > CLASS_NAME_BYTES_MAX
                || !spec.name.bytes().all(allowed)
            {
                return error(format!(
                    "`{}` is no name for a class; use 1 to {CLASS_NAME_BYTES_MAX} lower-case letters, digits and `-`",
                    spec.name.escape_default()
                ));
            }
            if specs[..index].iter().any(|other| other.name == spec.name) {
                return error(format!("two are called `{}`", spec.name));
            }
            for (share, of) in [(spec.share_permille, ""), (spec.network_permille, " of the network")] {
                if share == 0 || share > 1000 {
                    let name = &spec.name;
                    return error(format!(
                        "`{name}` has a share{of} of {share}; it must be 1 to 1000 thousandths"
                    ));
                }
            }
        }
        let sum: u32 = specs.iter().map(|spec| spec.share_permille).sum();
        if sum != 1000 {
            return error(format!("their shares make {sum} thousandths; they must make 1000"));
        }
        let sum: u32 = specs.iter().map(|spec| spec.network_permille).sum();
        if sum != 1000 {
            return error(format!("their shares of the network make {sum} thousandths; they must make 1000"));
        }
        Ok(ClassTable { specs })
    }

    /// How many classes there are.
    #[allow(clippy::len_without_is_empty, reason = "a table is never empty")]
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// All classes with their specifications, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Class, &ClassSpec)> {
        self.specs.iter().enumerate().map(|(index, spec)| (Class(index as u8), spec))
    }

    /// The specification of a class. A class that was removed from the table counts as `aperiodic`:
    /// requests made before the change must still be served.
    pub fn spec(&self, class: Class) -> &ClassSpec {
        self.specs.get(class.index()).unwrap_or(&self.specs[Class::APERIODIC.index()])
    }

    /// How the requests of a class are served.
    pub fn kind(&self, class: Class) -> Kind {
        self.spec(class).kind
    }

    /// The class of this name.
    pub fn by_name(&self, name: &str) -> Option<Class> {
        self.iter().find(|(_, spec)| spec.name == name).map(|(class, _)| class)
    }

    /// The share of all classes of a kind together, in thousandths.
    pub fn share_permille(&self, kind: Kind) -> u32 {
        self.specs.iter().filter(|spec| spec.kind == kind).map(|spec| spec.share_permille).sum()
    }
}

impl Default for ClassTable {
    /// The built-in three: periodic 700, interactive 150, aperiodic 150; of the network 850, 75 and
    /// 75.
    fn default() -> Self {
        let spec = |kind: Kind, share_permille, network_permille| ClassSpec {
            name: kind.name().to_owned(),
            kind,
            share_permille,
            network_permille,
        };
        let specs = vec![
            spec(Kind::Periodic, 700, 850),
            spec(Kind::Interactive, 150, 75),
            spec(Kind::Aperiodic, 150, 75),
        ];
        ClassTable { specs }
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Class::PERIODIC => f.write_str("periodic"),
            Class::INTERACTIVE => f.write_str("interactive"),
            Class::APERIODIC => f.write_str("aperiodic"),
            Class(index) => write!(f, "class {index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut Vec<ClassSpec>)) -> Result<ClassTable, ClassTableError> {
        let mut specs = ClassTable::default().specs;
        change(&mut specs);
        ClassTable::new(specs)
    }

    #[test]
    fn the_built_in_table_is_valid_and_three_long() {
        let table = with(|_| {}).unwrap();
        assert_eq!(table.len(), 3);
        assert_eq!(table.kind(Class::INTERACTIVE), Kind::Interactive);
        assert_eq!(table.by_name("aperiodic"), Some(Class::APERIODIC));
        assert_eq!(table.share_permille(Kind::Periodic), 700);
    }

    #[test]
    fn a_table_has_up_to_31_classes() {
        let premium = |number: usize| ClassSpec::new(format!("premium-{number}"), Kind::Periodic, 10);
        let with_more = |more: usize| {
            with(|specs| {
                specs[0].share_permille -= 10 * more as u32;
                specs[0].network_permille -= 10 * more as u32;
                specs.extend((0..more).map(premium));
            })
        };
        let table = with_more(28).unwrap();
        assert_eq!(table.len(), 31);
        assert_eq!(table.kind(Class::new(30).unwrap()), Kind::Periodic);
        assert!(with_more(29).is_err());
        assert_eq!(Class::new(31), None);
    }

    #[test]
    fn an_invalid_table_is_refused_with_the_reason() {
        let text = |result: Result<ClassTable, ClassTableError>| result.unwrap_err().to_string();
        assert!(text(with(|specs| specs[0].share_permille = 900)).contains("make 1200"));
        assert!(text(with(|specs| specs[1].name = "fast".into())).contains("`interactive`"));
        assert!(text(with(|specs| specs.truncate(2))).contains("class 2"));
        let more = |name: &str| ClassSpec::new(name, Kind::Aperiodic, 1);
        let again = more("periodic");
        assert!(text(with(|specs| specs.push(again))).contains("two are called"));
        let odd = more("A b");
        assert!(text(with(|specs| specs.push(odd))).contains("no name"));
        assert!(text(with(|specs| specs[0].share_permille = 0)).contains("share of 0"));
        assert!(text(with(|specs| specs[0].network_permille = 0)).contains("share of the network of 0"));
        assert!(text(with(|specs| specs[0].network_permille = 900)).contains("of the network make 1050"));
    }

    #[test]
    fn a_class_that_left_the_table_is_served_as_aperiodic() {
        assert_eq!(ClassTable::default().kind(Class::new(9).unwrap()), Kind::Aperiodic);
    }
}
