//! `[classes]`: the share of each class.

use std::collections::BTreeMap;

use reel_qos::{ClassSpec, ClassTable, Kind};
use reel_serve::ClassRights;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::{ClientsConfig, Fault, keys};

/// `[classes]`, by name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ClassesConfig(BTreeMap<String, ClassConfig>);

/// `[classes.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassConfig {
    #[serde(deserialize_with = "kind")]
    kind: Kind,
    share_permille: u32,
    /// The same as `share_permille` if not set.
    network_permille: Option<u32>,
    /// Those of [`ClassRights::default_of`] if not set.
    clients: Option<ClientsConfig>,
}

impl Default for ClassesConfig {
    fn default() -> Self {
        let table = ClassTable::default();
        let class = |spec: &ClassSpec| ClassConfig {
            kind: spec.kind,
            share_permille: spec.share_permille,
            network_permille: Some(spec.network_permille),
            clients: Some(ClientsConfig::of(&ClassRights::default_of(&spec.name))),
        };
        Self(table.iter().map(|(_, spec)| (spec.name.clone(), class(spec))).collect())
    }
}

impl ClassesConfig {
    /// The table: the built-in classes first, then the others by name.
    ///
    /// # Panics
    /// If [`ClassesConfig::check`] was not called before.
    pub(crate) fn table(&self) -> ClassTable {
        ClassTable::new(self.specs()).expect("checked when the configuration was read")
    }

    /// The clients that may ask for each class.
    pub(crate) fn rights(&self) -> ClassRights {
        // What is not valid was refused when the configuration was read.
        let clients = |class: &ClassConfig| class.clients.as_ref()?.clients().ok();
        ClassRights::new(self.0.iter().filter_map(|(name, class)| Some((name.clone(), clients(class)?))))
    }

    pub(super) fn check(&self, text: &str) -> Result<(), Fault> {
        self.check_clients(text)?;
        let help = "the three built-in classes must be there, and all shares make 1000; see reel.toml";
        for (_, built_in) in ClassTable::default().iter() {
            if !self.0.contains_key(&built_in.name) {
                let what = format!("classes.{} is missing", built_in.name);
                return Err(Fault { line: keys::line_of(text, "classes"), what, help: help.into() });
            }
        }
        let Err(error) = ClassTable::new(self.specs()) else { return Ok(()) };
        let error = error.to_string();
        let named = self.0.keys().find(|name| error.contains(&format!("`{}`", name.escape_default())));
        let key = named.map_or("classes".to_owned(), |name| format!("classes.{name}"));
        let what = format!("{}: {error}", key.escape_default());
        Err(Fault { line: keys::line_of(text, &key), what, help: help.into() })
    }

    fn check_clients(&self, text: &str) -> Result<(), Fault> {
        self.0.iter().try_for_each(|(name, class)| {
            let clients = class.clients.as_ref();
            clients.map_or(Ok(()), |clients| clients.check(&format!("classes.{name}.clients"), text))
        })
    }

    fn specs(&self) -> Vec<ClassSpec> {
        let default = ClassTable::default();
        let is_built_in = |name: &String| default.by_name(name).is_some();
        let built_in = default.iter().filter_map(|(_, spec)| self.0.get_key_value(&spec.name));
        let others = self.0.iter().filter(|(name, _)| !is_built_in(name));
        let spec = |(name, class): (&String, &ClassConfig)| ClassSpec {
            name: name.clone(),
            kind: class.kind,
            share_permille: class.share_permille,
            network_permille: class.network_permille.unwrap_or(class.share_permille),
        };
        built_in.chain(others).map(spec).collect()
    }
}

fn kind<'de, D: Deserializer<'de>>(source: D) -> Result<Kind, D::Error> {
    let name = String::deserialize(source)?;
    Kind::from_name(&name).ok_or_else(|| {
        D::Error::custom(format!("`{name}` is no kind of class; choose periodic, interactive or aperiodic"))
    })
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    const THREE: &str = "[classes.periodic]\nkind = \"periodic\"\nshare_permille = 500\n\
                         [classes.interactive]\nkind = \"interactive\"\nshare_permille = 150\n\
                         [classes.aperiodic]\nkind = \"aperiodic\"\nshare_permille = 150\n";

    #[test]
    fn built_in_classes_come_first() {
        let more = "[classes.gold]\nkind = \"periodic\"\nshare_permille = 150\n\
                    [classes.crawlers]\nkind = \"aperiodic\"\nshare_permille = 50\n";
        let table = Config::parse(&format!("{more}{THREE}")).unwrap().classes.table();
        let names: Vec<&str> = table.iter().map(|(_, spec)| spec.name.as_str()).collect();
        assert_eq!(names, ["periodic", "interactive", "aperiodic", "crawlers", "gold"]);
        assert_eq!(table.spec(table.by_name("gold").unwrap()).share_permille, 150);
    }

    #[test]
    fn a_class_names_its_clients() {
        let gold = "[classes.gold]\nkind = \"periodic\"\nshare_permille = 200\n";
        let allows = |clients: &str, class: &str| {
            let rights = Config::parse(&format!("{THREE}{gold}{clients}")).expect("valid").classes.rights();
            let client = |text: &str| text.parse::<std::net::IpAddr>().expect("an address").into();
            ["127.0.0.1", "192.0.2.7", "198.51.100.1"].map(|address| rights.allow(class, client(address)))
        };
        assert_eq!(allows("", "gold"), [true, false, false]);
        assert_eq!(allows("", "interactive"), [true, false, false]);
        assert_eq!(allows("", "aperiodic"), [true, true, true]);
        assert_eq!(allows("clients = \"all\"\n", "gold"), [true, true, true]);
        assert_eq!(allows("clients = [\"192.0.2.0/24\"]\n", "gold"), [false, true, false]);
        for wrong in ["\"some\"", "[\"friends\"]"] {
            let fault = Config::parse(&format!("{THREE}{gold}clients = {wrong}\n")).unwrap_err();
            assert!(fault.line == 13 && fault.what.contains("classes.gold.clients: "), "{fault:?}");
        }
    }

    #[test]
    fn an_impossible_value_names_its_key() {
        let refused = |text: &str, line: usize, words: &str| {
            let fault = Config::parse(text).unwrap_err();
            assert_eq!(fault.line, line, "{fault:?}");
            assert!(fault.what.contains(words), "{fault:?}");
        };
        refused(THREE, 1, "classes: these classes are not valid: their shares make 800");
        let only = "[classes.gold]\nkind = \"periodic\"\nshare_permille = 1000\n";
        refused(only, 1, "classes.periodic is missing");
        let zero = format!("{THREE}[classes.gold]\nkind = \"periodic\"\nshare_permille = 0\n");
        refused(&zero, 10, "classes.gold: these classes are not valid: `gold` has a share of 0");
        let named = format!("{THREE}[classes.\"My Friends\"]\nkind = \"periodic\"\nshare_permille = 200\n");
        refused(&named, 10, "`My Friends` is no name for a class");
        refused(&THREE.replace("kind = \"aperiodic\"", "kind = \"best\""), 8, "`best` is no kind of class");
        refused(
            &THREE.replace("share_permille = 500", "share = 500"),
            3,
            "unknown key `classes.periodic.share`",
        );
        let other = THREE.replace("kind = \"interactive\"", "kind = \"periodic\"");
        refused(&other, 4, "class 1 must be `interactive`, of kind interactive");
        assert!(Config::parse("classes = 5\n").is_err());
        assert!(Config::parse("[classes]\ngold = 5\n").is_err());
    }
}
