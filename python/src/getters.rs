//! Read-only properties of Python's objects, one a line.

/// Gives a class properties: `name: type = value;`. Bytes of type `&[u8]` are `bytes` in Python.
macro_rules! getters {
    (|$object:ident: $class:ty| $($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => {
        #[pyo3::pymethods]
        impl $class {
            $(
                $(#[$doc])*
                #[getter]
                fn $name(&self) -> $type {
                    let $object = self;
                    $value
                }
            )*
        }
    };
}

pub(crate) use getters;
