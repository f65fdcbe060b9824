import { httpUrl, like, setting, text, withoutLastSlash } from './setting.ts';

const path = '[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*';
const vaultPath = like(`^${path}$`, 'a path such as team/secret, without a slash at either end', 500);

export const secretsManagerSettings = {
  'vault.address': setting(
    'VAULT_ADDR',
    httpUrl,
    undefined,
    'Such as `https://vault.example.com:8200`; needed with `vault`.',
    { normalize: withoutLastSlash, secret: true, onlyWith: 'vault' },
  ),
  'vault.token': setting(
    'VAULT_TOKEN',
    // Anything else could not be sent in a header.
    like('^[\\x21-\\x7e]+$', 'a token of printable ASCII characters'),
    undefined,
    'Token for Vault; this or `vault.kubernetesRole`.',
    { secret: true, onlyWith: 'vault' },
  ),
  'vault.kubernetesRole': setting(
    'VAULT_K8S_ROLE',
    text,
    undefined,
    "Role to sign in as with the pod's service account.",
    { onlyWith: 'vault' },
  ),
  'vault.kubernetesMount': setting(
    'VAULT_K8S_MOUNT',
    vaultPath,
    'kubernetes',
    'Mount of the Kubernetes auth method.',
    { onlyWith: 'vault' },
  ),
  'vault.kubernetesTokenFile': setting(
    'VAULT_K8S_TOKEN_FILE',
    text,
    '/var/run/secrets/kubernetes.io/serviceaccount/token',
    "The service account's token.",
    { onlyWith: 'vault' },
  ),
  'vault.mount': setting('VAULT_MOUNT', vaultPath, 'secret', 'Mount of the KV engine.', {
    onlyWith: 'vault',
  }),
  'vault.prefix': setting('VAULT_PREFIX', vaultPath, 'handoff-gateway', "Folder of the gateway's secrets.", {
    onlyWith: 'vault',
  }),
  'vault.namespace': setting(
    'VAULT_NAMESPACE',
    like('^[\\x21-\\x7e]+$', 'the path of a namespace', 500),
    undefined,
    'Sent as `X-Vault-Namespace` (Vault Enterprise).',
    { onlyWith: 'vault' },
  ),
  'vault.caFile': setting(
    'VAULT_CACERT',
    text,
    undefined,
    "Vault's certificate authorities, PEM; defaults to the system's.",
    { onlyWith: 'vault' },
  ),
  'aws.prefix': setting(
    'AWS_SECRETS_PREFIX',
    like('^[A-Za-z0-9/_+=.@-]{1,200}$', 'a name of 1 to 200 characters of A-Z, a-z, 0-9 and /_+=.@-'),
    'handoff-gateway/',
    "Prefix of the gateway's secrets.",
    { onlyWith: 'aws' },
  ),
  'aws.region': setting(
    'AWS_REGION',
    text,
    undefined,
    'Region; needed with `aws`, unless `AWS_PROFILE` or `AWS_CONFIG_FILE` is set.',
    { onlyWith: 'aws' },
  ),
};
