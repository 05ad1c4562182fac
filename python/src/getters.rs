//! Macros for Python's classes: read-only properties, and the texts of `help` from the stubs.

/// The text that the stubs have of a name: `stub!("Hash.update")`.
macro_rules! stub {
    ($($name:tt)*) => {
        include_str!(concat!(env!("OUT_DIR"), "/", $($name)*))
    };
}

/// Gives a class properties: `name: type = value;`, or `name(py): type = value;` where Python is needed for it. Bytes of
/// type `&[u8]` are `bytes` in Python, and a `&Failure` is its exception. A class with another name in Python is named
/// so: `|object: Class as Name|`.
macro_rules! getters {
    (|$object:ident: $class:ident| $($properties:tt)*) => {
        getters! { |$object: $class as $class| $($properties)* }
    };
    (|$object:ident: $class:ident as $python:ident| $($name:ident $(($py:ident))?: $type:ty = $value:expr;)*) => {
        #[pyo3::pymethods]
        impl $class {
            $(
                #[doc = stub!(stringify!($python), ".", stringify!($name))]
                #[getter]
                fn $name(&self $(, $py: pyo3::Python<'_>)?) -> $type {
                    let $object = self;
                    $value
                }
            )*
        }
    };
}

/// Makes a class of which each field is a property.
macro_rules! fields {
    ($(#[$attribute:meta])* $class:ident { $($name:ident: $type:ty,)* }) => {
        #[doc = stub!(stringify!($class))]
        $(#[$attribute])*
        #[pyo3::pyclass(frozen, get_all, module = "verisum")]
        pub(crate) struct $class {
            $(
                #[doc = stub!(stringify!($class), ".", stringify!($name))]
                $name: $type,
            )*
        }
    };
}
