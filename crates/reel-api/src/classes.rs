//! `/api/v1/classes`: the classes and their shares, as data that can be changed while the server
//! runs.

use crate::ControlPlane;
use crate::body::JsonBody;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use reel_qos::{ClassSpec, ClassTable, Kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A class of traffic. The shares of all classes add up to 1000.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TrafficClass")]
pub(super) struct ClassBody {
    /// Its name: lower-case letters, digits and `-`.
    name: String,
    /// How it is served.
    // A string when read, so that an unknown kind is refused with the kinds there are.
    #[schemars(with = "ClassKind")]
    kind: String,
    /// Its share of every device under scarcity, in thousandths.
    share_permille: u32,
    /// Its share of the network, in thousandths; the same as `share_permille` if left out.
    #[schemars(with = "u32")]
    network_permille: Option<u32>,
}

/// How a class of traffic is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClassKind {
    /// With deadlines that were reserved: audio and video of admitted sessions.
    Periodic,
    /// As soon as possible, since a person waits; without a reservation.
    Interactive,
    /// With what the others leave, but never nothing: downloads, ingest, checks.
    Aperiodic,
}

impl From<Kind> for ClassKind {
    fn from(kind: Kind) -> ClassKind {
        match kind {
            Kind::Periodic => ClassKind::Periodic,
            Kind::Interactive => ClassKind::Interactive,
            Kind::Aperiodic => ClassKind::Aperiodic,
        }
    }
}

/// `GET /api/v1/classes`
pub(super) async fn show(State(control): State<ControlPlane>) -> Json<Vec<ClassBody>> {
    Json(bodies(&control.admission().classes()))
}

/// `PUT /api/v1/classes`: all of them at once, since their shares must add up.
pub(super) async fn change(
    State(control): State<ControlPlane>,
    JsonBody(wanted): JsonBody<Vec<ClassBody>>,
) -> Result<Json<Vec<ClassBody>>, Problem> {
    let specs = wanted.into_iter().map(spec).collect::<Result<Vec<_>, _>>()?;
    let table = ClassTable::new(specs).map_err(|error| impossible(error.to_string()))?;
    let shown = bodies(&table);
    tracing::info!(classes = ?table, "the classes were changed");
    control.admission().set_classes(table);
    Ok(Json(shown))
}

fn spec(ClassBody { name, kind, share_permille, network_permille }: ClassBody) -> Result<ClassSpec, Problem> {
    let kind = Kind::from_name(&kind).ok_or_else(|| {
        impossible(format!("`{kind}` is not a kind of class"))
            .help("the kinds are periodic, interactive and aperiodic")
    })?;
    let network_permille = network_permille.unwrap_or(share_permille);
    Ok(ClassSpec { name, kind, share_permille, network_permille })
}

fn bodies(table: &ClassTable) -> Vec<ClassBody> {
    let body = |spec: &ClassSpec| ClassBody {
        name: spec.name.clone(),
        kind: spec.kind.name().to_owned(),
        share_permille: spec.share_permille,
        network_permille: Some(spec.network_permille),
    };
    table.iter().map(|(_, spec)| body(spec)).collect()
}

fn impossible(detail: String) -> Problem {
    let title = "These classes are not valid";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "impossible-classes", title, detail)
}
