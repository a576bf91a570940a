//! The environment of expressions that select devices (KAPI-REST-07): one variable, `device`, and `cel.bind`.

use std::sync::Arc;

use crate::cost::decl::Decl;
use crate::program::Env;
use crate::types::{Record, Type};

/// The environment of an expression that selects devices. Its programs are estimated.
pub fn device_env() -> Env {
    let map = |values: Type| Type::Map(Arc::new(Type::String), Arc::new(values));
    let fields =
        [("driver", Type::String), ("attributes", map(map(Type::Dyn))), ("capacity", map(map(Type::Library("kubernetes.Quantity"))))];
    Env::new().variable("device", Record::new("kubernetes.DRADevice", fields).kind()).with_sizes(Some(Decl::of_device())).with_bindings()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::program::{Activation, Program};
    use crate::value::Value;

    /// KAPI-REST-07: names and types of a device.
    #[test]
    fn devices_have_a_driver_attributes_and_capacity() {
        let kind = |text: &str| Program::compile(text, &device_env()).map(|program| program.kind().to_string());
        assert_eq!(kind("device.driver").unwrap(), "string");
        assert_eq!(kind("device.attributes['d.example.com'].flag").unwrap(), "dyn");
        assert_eq!(kind("device.capacity['d.example.com'].memory.isGreaterThan(quantity('1Gi'))").unwrap(), "bool");
        assert!(kind("device.allowMultipleAllocations").unwrap_err().to_string().contains("undefined field 'allowMultipleAllocations'"));
    }

    /// KAPI-REST-07: sizes of a device bound what its expressions can cost.
    #[test]
    fn programs_are_estimated() {
        let most = |text: &str| Program::compile(text, &device_env()).unwrap().estimate().unwrap().max;
        assert!(most("device.attributes['d.example.com'].model.matches('^a.*b$')") < 1_000_000);
        let nested =
            "device.attributes.all(d, device.attributes.all(e, device.attributes.all(f, device.attributes.all(g, d == e && f == g))))";
        assert!(most(nested) > 1_000_000);
    }

    /// KAPI-REST-07: a name for a value, only here.
    #[test]
    fn values_are_bound_to_names() {
        let text = "cel.bind(a, 1 + 1, cel.bind(b, a * a, a + b))";
        let program = Program::compile(text, &device_env()).unwrap();
        assert!(matches!(program.eval(&Activation::new()), Ok(Value::Int(6))));
        assert!(program.estimate().is_some());
        assert!(Program::compile("cel.bind(dra, device.attributes['d.example.com'], dra.a && dra.b)", &device_env()).is_ok());
        assert!(Program::compile(text, &Env::new()).unwrap_err().to_string().contains("undeclared reference to"));
        let odd = Program::compile("cel.bind(1, 2, 3)", &device_env()).unwrap_err().to_string();
        assert!(odd.contains("cel.bind() variable names must be simple identifiers"), "{odd}");
    }
}
