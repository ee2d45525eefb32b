-- When an account is to be deleted, because an owner has asked for that.
ALTER TABLE tenants ADD COLUMN deletion_at TIMESTAMP;
