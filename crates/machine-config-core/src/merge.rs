//! The MachineConfigs of a pool as one.

use mainstay_ignition::{Config, Data};

use crate::ignition::{ConvertError, parse_and_convert};
use crate::machine_config::{ControllerConfig, MachineConfig, MachineConfigSpec, WORKER};
use crate::name::rendered_name;
use crate::validate::{ValidationError, validate};

/// Why MachineConfigs cannot be merged, in upstream's words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MergeError {
    /// A MachineConfig has no labels.
    #[error("Cannot find label in MachineConfig {0}")]
    Labels(String),
    /// An Ignition config cannot be read.
    #[error("{error}")]
    Ignition {
        /// The MachineConfig that it is in.
        config: String,
        /// Why.
        error: ConvertError,
    },
    /// An extension does not go with the kernel.
    #[error("installing kernel-devel extension is not supported with kernelType: {0}")]
    KernelDevel(String),
}

/// Why a pool has no rendered MachineConfig, in upstream's words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RenderError {
    /// A MachineConfig is broken by itself.
    #[error("{error}")]
    Invalid {
        /// The MachineConfig.
        config: String,
        /// Why.
        error: ValidationError,
    },
    /// They cannot be merged.
    #[error(transparent)]
    Merge(#[from] MergeError),
}

impl RenderError {
    /// The MachineConfig that is to blame, if it is one.
    pub fn config(&self) -> Option<&str> {
        match self {
            RenderError::Invalid { config, .. } | RenderError::Merge(MergeError::Ignition { config, .. } | MergeError::Labels(config)) => {
                Some(config)
            }
            RenderError::Merge(MergeError::KernelDevel(_)) => None,
        }
    }
}

/// The MachineConfig that those of a pool become.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The name, which changes with the content.
    pub name: String,
    /// The content.
    pub spec: MachineConfigSpec,
    /// True if a MachineConfig brings an operating system of its own, which is said in the annotation
    /// `machineconfiguration.openshift.io/os-image-url-overridden`.
    pub os_image_overridden: bool,
}

/// Renders the MachineConfigs of a pool; none if there are none (MACH-MC-02, MACH-MC-03).
pub fn render(pool: &str, configs: &[MachineConfig], controller: &ControllerConfig) -> Result<Option<Rendered>, RenderError> {
    for config in configs {
        validate(&config.spec).map_err(|error| RenderError::Invalid { config: config.name.clone(), error })?;
    }
    let Some(spec) = merge(configs, controller)? else { return Ok(None) };
    let os_image_overridden = spec.os_image_url != controller.base_os_container_image;
    Ok(Some(Rendered { name: rendered_name(pool, &spec), spec, os_image_overridden }))
}

/// The configs in the order in which they are merged: those of workers first, each group by name.
pub fn in_order(configs: &[MachineConfig]) -> Result<Vec<&MachineConfig>, MergeError> {
    if let Some(unlabelled) = configs.iter().find(|config| config.labels.is_none()) {
        return Err(MergeError::Labels(unlabelled.name.clone()));
    }
    let mut ordered: Vec<&MachineConfig> = configs.iter().collect();
    ordered.sort_by_key(|config| (config.role() != Some(WORKER), &config.name));
    Ok(ordered)
}

/// Merges MachineConfigs; none if there are none.
pub fn merge(configs: &[MachineConfig], controller: &ControllerConfig) -> Result<Option<MachineConfigSpec>, MergeError> {
    if configs.is_empty() {
        return Ok(None);
    }
    let configs = in_order(configs)?;
    let ignition = merged_ignition(&configs)?;
    let specs = || configs.iter().map(|config| &config.spec);
    let last = |of: fn(&MachineConfigSpec) -> &String, otherwise: &String| {
        specs().map(of).rfind(|value| !value.is_empty()).unwrap_or(otherwise).clone()
    };
    let own_kernel = specs().rev().map(|spec| spec.kernel_type.as_str()).find(|kernel| matches!(*kernel, "realtime" | "64k-pages"));
    let extensions: Vec<String> = specs().flat_map(|spec| spec.extensions.iter().cloned()).collect();
    if let Some(kernel) = own_kernel.filter(|_| extensions.iter().any(|extension| extension == "kernel-devel")) {
        return Err(MergeError::KernelDevel(kernel.to_owned()));
    }
    Ok(Some(MachineConfigSpec {
        os_image_url: last(|spec| &spec.os_image_url, &controller.base_os_container_image),
        extensions_image: last(|spec| &spec.extensions_image, &controller.base_os_extensions_container_image),
        ignition: Some(ignition.to_json()),
        kernel_arguments: specs().flat_map(|spec| spec.kernel_arguments.iter().cloned()).collect(),
        extensions,
        fips: specs().any(|spec| spec.fips),
        kernel_type: own_kernel.unwrap_or("default").to_owned(),
    }))
}

fn merged_ignition(configs: &[&MachineConfig]) -> Result<Config, MergeError> {
    let mut merged: Option<Config> = None;
    for config in configs {
        let next = match &config.spec.ignition {
            Some(text) => parse_and_convert(text).map_err(|error| MergeError::Ignition { config: config.name.clone(), error })?,
            // Only the first one counts without a config, as one that says nothing.
            None if merged.is_none() => Config::default(),
            None => continue,
        };
        merged = Some(match merged {
            Some(before) => before.merged_with(&next),
            None => next,
        });
    }
    let mut merged = merged.unwrap_or_default();
    // The operator overwrites files in any case; Ignition on a new node would not.
    merged.for_each_file(|file| {
        if !file.has("overwrite") {
            file.set("overwrite", Data::Bool(true));
        }
    });
    Ok(merged)
}
