-- Floor 38: binaries that do not know of the column neither read nor write it. They do not start on this schema either.

-- The oldest schema whose binaries may run beside this migration; null: only its own (docs/adr/0046-schemas-carry-older-binaries.md).
ALTER TABLE migrations ADD COLUMN floor BIGINT;
