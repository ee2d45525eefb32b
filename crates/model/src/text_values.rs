//! Enums whose values are written as text, in records and in the database.

/// Gives an enum the text of each of its values: `ALL` lists the values and `as_str` writes one of them.
#[macro_export]
macro_rules! text_values {
    ($name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        impl $name {
            /// Every value, in the order of its definition.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The text of this value in records and in the database.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }
        }
    };
}
