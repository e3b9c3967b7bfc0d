export type KeyRow = {
  id: string;
  workspace_id: string;
  project_id: string;
  name: string;
  public_id: string;
  /** SHA-256 of the secret part, hex. */
  secret_hash: string;
  last_four: string;
  created_at: number;
  expires_at: number | null;
  revoked_at: number | null;
  last_used_at: number | null;
};

export type KeyFilter = { workspace_id?: string; project_id?: string };

export type KeyStore = {
  create(key: KeyRow): Promise<void>;
  /** The new key and the old one's last hour, both or neither. False: the old one is revoked or gone. */
  rotate(old: { id: string; expires_at: number }, key: KeyRow): Promise<boolean>;
  /** False when there is no such key; a key that was revoked before keeps its time. */
  revoke(id: string, at: number): Promise<boolean>;
  remove(id: string): Promise<void>;
  /** Nobody waits for it: stored with the next commit. */
  used(id: string, at: number): Promise<void>;
  get(id: string): Promise<KeyRow | undefined>;
  byPublicId(public_id: string): Promise<KeyRow | undefined>;
  list(filter: KeyFilter, page?: { limit: number; offset: number }): Promise<KeyRow[]>;
  count(filter: KeyFilter): Promise<number>;
};
