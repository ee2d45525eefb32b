//! What the database itself says of its tables.
