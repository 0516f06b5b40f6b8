//! What can be used up, as codes.

use reel_qos::Resource;
use schemars::JsonSchema;
use serde::Serialize;

/// What can be used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceCode {
    /// Device time of a disk; where its requests and bytes are limited independently, that of its
    /// requests.
    Disk,
    /// Device time of the bytes of a disk whose requests and bytes are limited independently.
    DiskBytes,
    /// Bytes sent.
    Network,
    /// Processor time of the threads that serve.
    Processor,
    /// Media memory.
    Memory,
    /// The table of sessions, or the part of it that one client may hold.
    Sessions,
}

/// One thing that can be used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ResourceId {
    /// What it is.
    pub resource: ResourceCode,
    /// Which disk, by its number in the volume; only of disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<usize>,
}

impl From<Resource> for ResourceCode {
    fn from(resource: Resource) -> ResourceCode {
        match resource {
            Resource::Member(_) => ResourceCode::Disk,
            Resource::MemberBytes(_) => ResourceCode::DiskBytes,
            Resource::Network => ResourceCode::Network,
            Resource::Core => ResourceCode::Processor,
            Resource::Arena => ResourceCode::Memory,
        }
    }
}

impl From<Resource> for ResourceId {
    fn from(resource: Resource) -> ResourceId {
        ResourceId { resource: resource.into(), member: resource.member() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_and_the_ledger_name_a_resource_by_the_same_code() {
        for resource in [
            Resource::Member(3),
            Resource::MemberBytes(3),
            Resource::Network,
            Resource::Core,
            Resource::Arena,
        ] {
            let id = serde_json::to_value(ResourceId::from(resource)).expect("serializable");
            assert_eq!(id["resource"], resource.code());
            assert_eq!(id["member"].as_u64(), resource.member().map(|member| member as u64));
        }
    }
}
