import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  isSecretChoice,
  isSecretHeader,
  isSecretName,
  isSecretValue,
  rememberSecret,
  SecretFilter,
  secretSpans,
  withoutSecrets,
} from './secrets.ts'

test.each([
  'HF_TOKEN',
  'apiKey',
  'APIKEY',
  'x-amz-security-token',
  'DB_PASSWORD',
  'PGPASSWORD',
  'client-secret',
  'GOOGLE_CREDENTIALS',
  'auth',
  'SECRET_KEY_BASE',
])('%s names a secret', (name) => expect(isSecretName(name)).toBe(true))

test.each([
  'TOKENIZER',
  'TOKENIZERS_PARALLELISM',
  'BATCH_SIZE',
  'MONKEY',
  'KEYBOARD',
  'author',
  'PATH',
  'compass',
])('%s names none', (name) => expect(isSecretName(name)).toBe(false))

test.each([
  ['MAX_TOKEN', '512', false],
  ['USE_AUTH', 'true', false],
  ['KEY_FILE', '/etc/key', false],
  ['TOKEN', '${token}', false],
  ['DB_PASSWORD', '123456', true],
  ['API_KEY', 'abc', true],
])('%s=%s holds a secret: %s', (name, value, secret) =>
  expect(isSecretValue(name, value)).toBe(secret),
)

test('every header but the harmless tells who asks', () => {
  expect(['Authorization', 'X-Tenant', 'cookie', 'x-api-key'].map(isSecretHeader)).toEqual([
    true,
    true,
    true,
    true,
  ])
  expect(['Content-Type', 'accept', 'User-Agent'].map(isSecretHeader)).toEqual([
    false,
    false,
    false,
  ])
})

const secretsIn = (text: string) => secretSpans(text).map(([from, to]) => text.slice(from, to))

test.each<[string, string[]]>([
  ['http://user:p@ss@host:8000/v1', ['user:p@ss']],
  ['http://host/v1?api_key=abc&batch=8&sig=x%2Fy', ['abc', 'x%2Fy']],
  ['serve --port 8000 --token abc --batch 8', ['abc']],
  ['--api-key=abc', ['abc']],
  ["sh -c 'API_KEY=abc serve'", ['abc']],
  ['{"text": "{{text}}", "api_key": "a b c", "max_tokens": 128}', ['a b c']],
  ['db:\n  password: abc\n  host: here\n', ['abc']],
  ['curl -H "Authorization: Bearer abcdefgh"', ['abcdefgh']],
  ['serve hf_abcdefghijklmnopqrstu', ['hf_abcdefghijklmnopqrstu']],
  ['--token ${env:TOKEN} --password=${password}', []],
  ['http://127.0.0.1:8000/v1/models/token:predict', []],
  ['/predict?sig=${file:///e.yaml#/predictor/path!1}&key=abc', ['abc']],
  ['http://${file:///e.yaml#/predictor/url!1}@host', []],
])('in %j', (text, secrets) => expect(secretsIn(text)).toEqual(secrets))

test('a text is shown without what is known and what shows itself', () => {
  rememberSecret('hunter2-planted')
  const base64 = Buffer.from('hunter2-planted').toString('base64')
  const shown = withoutSecrets(
    `cannot reach http://u:pw@host/?token=abcd: sent hunter2-planted, ${base64}`,
  )
  expect(shown).toBe('cannot reach http://[secret]@host/?token=[secret]: sent [secret], [secret]')
  expect(withoutSecrets('p99 12 ms at 80 req/s')).toBe('p99 12 ms at 80 req/s')
})

test('bytes that come in any pieces lose known secrets and nothing else', () => {
  const secret = 'aab-aab-aabc-ü'
  rememberSecret(secret)
  const piece = fc.oneof(
    fc.constant(secret),
    fc.string({ unit: fc.constantFrom('a', 'b', '-', '\n', 'é') }),
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), fc.array(fc.nat(40)), (pieces, cuts) => {
      const bytes = Buffer.from(pieces.join(''))
      const filter = new SecretFilter()
      const written: Buffer[] = []
      let from = 0
      for (const cut of [...cuts, bytes.length]) {
        written.push(filter.write(bytes.subarray(from, from + cut)))
        from += cut
      }
      const text = Buffer.concat([...written, filter.end()]).toString()
      expect(text).not.toContain(secret)
      expect(text).toBe(bytes.toString().replaceAll(secret, '[secret]'))
    }),
  )
})

test.each<[string, string, boolean]>([
  ['apiToken', 'planted', true],
  ['dbPassword', 'planted', true],
  ['endpoint', 'https://admin:planted@host/', true],
  ['model', 'hf_0123456789abcdefghijkl', true],
  ['maxTokens', '512', false],
  ['keyDtype', 'fp8_e4m3', false],
  ['auth', 'basic', false],
  ['tokenizer', 'fast', false],
])('a tuned %s of %s', (name, value, secret) => expect(isSecretChoice(name, value)).toBe(secret))

test('a URL that was taken for a path keeps no user info', () => {
  expect(withoutSecrets("ENOENT: open '/home/a/https:/u:planted@host/prices.yaml'")).toBe(
    "ENOENT: open '/home/a/https:/[secret]@host/prices.yaml'",
  )
})
