/**
 * The example as its user runs it, against a server that answers only under the service's host
 * name.
 */
import { copyFileSync, readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliBox } from '../../tuner/testing/run-cli.ts'

const box = new CliBox()
const answers: Readonly<Record<string, object>> = {
  '/v2/health/ready': {},
  '/v2/models/sklearn-iris': {
    name: 'sklearn-iris',
    versions: [],
    platform: '',
    inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, 4] }],
    outputs: [],
  },
  '/v2/models/sklearn-iris/infer': {
    model_name: 'sklearn-iris',
    outputs: [{ name: 'predict', datatype: 'INT64', shape: [1], data: [0] }],
  },
}
const ingress = createServer((request, response) => {
  const answer =
    request.headers.host === 'sklearn-iris.default.example.com' ? answers[request.url!] : undefined
  request
    .resume()
    .on('end', () =>
      setTimeout(() => response.writeHead(answer ? 200 : 404).end(JSON.stringify(answer ?? {})), 5),
    )
})
beforeAll(() => new Promise<void>((resolve) => ingress.listen(0, '127.0.0.1', resolve)))
afterAll(() => {
  ingress.close()
  box.dispose()
})

test('measures what runs already, under the name that its ingress knows', async ({ skip }) => {
  copyFileSync(
    fileURLToPath(new URL('experiment.yaml', import.meta.url)),
    join(box.folder, 'experiment.yaml'),
  )
  const url = `http://127.0.0.1:${(ingress.address() as AddressInfo).port}`
  const { code, stdout, stderr } = await box.run([
    '-f',
    'experiment.yaml',
    '--url',
    url,
    '--slo',
    'p75<50ms',
    '--trial-time',
    '1s',
    '--time-limit',
    '10s',
    '--no-confirm',
  ])
  await box.skipIfDisturbed(skip)
  expect(code, `${stdout}\n${stderr}`).toBe(0)
  const [experiment] = readdirSync(join(box.folder, 'tune-results'))
  expect(readFileSync(join(box.folder, 'tune-results', experiment!, 'trials.csv'), 'utf8')).toMatch(
    /complete/,
  )
})
