import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  findSecrets,
  isSecretChoice,
  isSecretHeader,
  isSecretName,
  isSecretValue,
  redactSecrets,
  registerSecret,
  SecretFilter,
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

const secretsIn = (text: string) => findSecrets(text).map(([from, to]) => text.slice(from, to))

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

const hex = '9f86d081884c7d659a2feaa0c55ad015'
test.each<[string, string[]]>([
  [`/api/${hex}/predict`, [hex]],
  ['/api/tok_k3j9x2m7q4w8v5n1b6z0/predict', ['tok_k3j9x2m7q4w8v5n1b6z0']],
  ['/hooks/T01AB2CD3/XyZ12abCDe34FGhi56Jk', ['XyZ12abCDe34FGhi56Jk']],
  ['/bot123456789:AAF-x7_Qm2LkZp0RtYuIoPaSdFgHjKlZxCv/send', [expect.stringMatching(/^bot/)]],
  ['/6f1c9b52-3d1e-4c7a-9a52-0b1d2e3f4a5b/run?x=1', ['6f1c9b52-3d1e-4c7a-9a52-0b1d2e3f4a5b']],
  ['/v1/keys/sk-abcdefghijklmnop123/use', ['sk-abcdefghijklmnop123']],
  ['/api/token/planted-0001/predict', ['planted-0001']],
  ['/api-key/hunter-two/v1', ['hunter-two']],
  ['/secrets/p%40ssw0rd', ['p%40ssw0rd']],
  ['/oauth/token/refresh', []],
  ['/v1/keys/v1beta1/list', []],
  ['/tokens/${env:TOKEN}/predict', []],
  ['/v2/models/llama-3.1-8b-instruct-awq-int4/infer', []],
  ['/v1/models/distilbert-base-uncased-finetuned-sst-2-english:predict', []],
  ['/models/MyVeryLongTextClassifierModelV2Final/versions/20260101T120000Z', []],
  ['/projects/123456789012/endpoints/1234567890123456789:predict', []],
  [`/org/model/resolve/${hex}/model.onnx`, []],
  [`/blobs/sha256:${hex}${hex}`, []],
])('in the path %s of a URL', (path, secrets) => {
  expect(secretsIn(`curl http://h:1${path}`)).toEqual(secrets)
  expect(findSecrets(path, true).map(([from, to]) => path.slice(from, to))).toEqual(secrets)
  const shown = redactSecrets(`GET http://h:1${path} failed`)
  expect(shown.match(/\[secret\]/g) ?? []).toHaveLength(secrets.length)
})

test('the path of a file is no path of a URL', () => {
  const path = `/srv/secrets/model-7b/${hex}/file.json`
  expect(secretsIn(`serve ${path} file://${path} s3://bucket${path}`)).toEqual([])
})

test('a text is shown without what is known and what shows itself', () => {
  registerSecret('hunter2-planted')
  const base64 = Buffer.from('hunter2-planted').toString('base64')
  const shown = redactSecrets(
    `cannot reach http://u:pw@host/?token=abcd: sent hunter2-planted, ${base64}`,
  )
  expect(shown).toBe('cannot reach http://[secret]@host/?token=[secret]: sent [secret], [secret]')
  expect(redactSecrets('p99 12 ms at 80 req/s')).toBe('p99 12 ms at 80 req/s')
})

test('bytes that come in any pieces lose known secrets and nothing else', () => {
  const secret = 'aab-aab-aabc-ü'
  registerSecret(secret)
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
  expect(redactSecrets("ENOENT: open '/home/a/https:/u:planted@host/prices.yaml'")).toBe(
    "ENOENT: open '/home/a/https:/[secret]@host/prices.yaml'",
  )
})
