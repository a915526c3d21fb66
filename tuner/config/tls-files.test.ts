import { expect, test } from 'vitest'
import { testCertificate, testKey } from '../../profiler/testing/certificate.ts'
import { problemLines, useWorkspace } from './testing/workspace.ts'

const { path, write, load, loadFile } = useWorkspace()

test('a certificate of its own is shown with its key, from the file as from flags', () => {
  write('client.pem', testCertificate)
  write('client.key', testKey)
  write('empty.pem', '')
  const of = (tls: string) => `model: m\nslo: 50ms\npredictor: {url: "https://h:1", ${tls}}\n`
  const tls = {
    cert: testCertificate,
    key: testKey,
    certPath: path('client.pem'),
    keyPath: path('client.key'),
  }
  expect(loadFile(of('tls: {cert: client.pem, key: client.key}')).predictor).toMatchObject({ tls })
  expect(loadFile(of(''), { cert: 'client.pem', key: 'client.key' }).predictor).toMatchObject({
    tls,
  })
  expect(
    loadFile(of('tls: {cert: client.pem, key: client.key, ca: client.pem}')).predictor,
  ).toMatchObject({
    tls: { ...tls, ca: testCertificate },
  })
  expect(problemLines(() => loadFile(of('tls: {cert: client.pem}')))).toEqual([
    expect.stringMatching(/certificate without its key/),
  ])
  expect(problemLines(() => loadFile(of('tls: {key: client.key}')))).toEqual([
    expect.stringMatching(/key without its certificate/),
  ])
  expect(problemLines(() => loadFile(of('tls: {cert: client.pem, key: empty.pem}')))).toEqual([
    expect.stringMatching(/empty\.pem contains no key/),
  ])
  expect(problemLines(() => loadFile(of('ca: client.pem, tls: {ca: client.pem}')))).toEqual([
    expect.stringMatching(/ca appears twice/),
  ])
})

test.each([
  ['unix:/run/x.sock', 'oip-v2', undefined],
  ['http+unix://%2Frun%2Fx.sock/ml', 'json', undefined],
  ['unix:/run/x.sock', 'grpc-v2', undefined],
  ['http://gw/ml/prod', 'tfserving', undefined],
  ['grpc://gw/ml/prod', 'grpc-v2', "--url 'grpc://gw/ml/prod' has the path /ml/prod"],
  ['unix:', 'oip-v2', "--url 'unix:' is not an http URL"],
])('a server at %s, asked by %s', (url, protocol, problem) => {
  const read = () => load({ model: 'm', slo: '50ms', url, protocol, path: '/predict' })
  if (problem === undefined) expect(read().predictor).toMatchObject({ url })
  else expect(problemLines(read)).toEqual([problem])
})
