import { describe, expect, test } from 'vitest'
import {
  formatHttpUrl,
  formatUrl,
  parseServerAddress,
  resolveServerPath,
} from './server-address.ts'

describe('the address of a server', () => {
  test.each([
    ['http://127.0.0.1:8000', 'http://127.0.0.1:8000', '/', undefined],
    ['https://gw/ml/prod/', 'https://gw', '/ml/prod/', undefined],
    ['http://u:p@gw:81/ml?k=1', 'http://gw:81', '/ml', undefined],
    ['unix:/run/x.sock', 'unix:/run/x.sock', '/', '/run/x.sock'],
    ['unix:///run/x.sock', 'unix:/run/x.sock', '/', '/run/x.sock'],
    ['unix:x.sock', 'unix:x.sock', '/', 'x.sock'],
    ['unix:/run/x.sock:/ml', 'unix:/run/x.sock', '/ml', '/run/x.sock'],
    ['http+unix://%2Frun%2Fx.sock/ml/', 'unix:/run/x.sock', '/ml/', '/run/x.sock'],
  ])('%s', (url, origin, path, socketPath) => {
    const address = parseServerAddress(url)!
    expect(address).toMatchObject({ origin, path })
    expect(address.socketPath).toBe(socketPath)
    expect(parseServerAddress(formatUrl(address, '/v2/health'))).toMatchObject({
      origin,
      path: '/v2/health',
    })
    expect(new URL(formatHttpUrl(address)).pathname).toBe(path)
  })

  test.each(['127.0.0.1:8000', 'ftp://host', 'http:///', 'unix:', 'nothing'])(
    '%s is none',
    (url) => {
      expect(parseServerAddress(url)).toBeUndefined()
    },
  )
})

test.each([
  ['http://h', '/v2/models/m/infer', '/v2/health/ready', '/v2/health/ready'],
  ['http://h/ml/prod', '/v2/models/m/infer', '/v2/health/ready', '/ml/prod/v2/health/ready'],
  ['http://h/ml/prod/', '/v2/models/m/infer', '/v2/models/m/infer', '/ml/prod/v2/models/m/infer'],
  ['http://h/openai/v1', '/v1/chat/completions', '/v1/models', '/openai/v1/models'],
  ['http://h/v1/', '/v1/chat/completions', '/v1/chat/completions', '/v1/chat/completions'],
  [
    'http://h/ml/v2/models/m/infer',
    '/v2/models/m/infer',
    '/v2/health/ready',
    '/ml/v2/health/ready',
  ],
  [
    'http://h/v1/models/m:predict',
    '/v1/models/m:predict',
    '/v1/models/m/metadata',
    '/v1/models/m/metadata',
  ],
  ['http://h/ml/predict', '/predict', '/healthz', '/ml/healthz'],
  ['http://h/predictions', '/predict', '/healthz', '/predictions/healthz'],
  ['http://h/ml?key=a', '/predict', '/predict', '/ml/predict?key=a'],
  ['http://h/ml?key=a', '/predict?b=1', '/predict?b=1', '/ml/predict?b=1&key=a'],
  ['http://h', '/a b', '/a b', '/a%20b'],
])('below %s, of a call to %s, stands %s at %s', (url, call, own, path) => {
  expect(resolveServerPath(parseServerAddress(url)!, call, own)).toBe(path)
})
