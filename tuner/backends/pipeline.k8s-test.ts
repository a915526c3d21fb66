/** A pipeline of small servers on a real cluster, as its users run it. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  createNamespace,
  type TestNamespace,
  testImage,
} from '../../trials/launchers/kubernetes/testing/namespace.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { CliBox } from '../testing/run-cli.ts'

let namespace: TestNamespace
let box: CliBox
beforeAll(async () => {
  namespace = await createNamespace()
})
afterAll(() => namespace?.remove())
beforeEach(() => {
  box = new CliBox()
})
afterEach(async () => {
  box.dispose()
  expect(await namespace.leftovers()).toEqual([])
})

/**
 * A JSON server that calls the URLs of its arguments one after the other. It ends after so many
 * requests, if it has a limit.
 */
const script = `
const [port, limit, ...urls] = process.argv.slice(1)
process.on('SIGTERM', () => process.exit(0))
let requests = 0
require('node:http').createServer(async (request, response) => {
  if (request.method === 'GET') return response.end('{"ready": true}')
  for await (const _ of request);
  requests++
  if (Number(limit) > 0 && requests > Number(limit)) {
    console.error('the index is corrupt')
    process.exit(3)
  }
  try {
    for (const url of urls) {
      const answer = await fetch(url, { method: 'POST', body: '{}' })
      if (!answer.ok) throw new Error(url + ' answered ' + answer.status)
      await answer.text()
    }
    response.setHeader('content-type', 'application/json').end('{"found": 1}')
  } catch (error) {
    response.writeHead(500).end(error.message)
  }
}).listen(Number(port), '0.0.0.0')
`

const createStage = (urls: readonly string[], limit = 0) => ({
  model: 'm',
  predictor: { protocol: 'json', path: '/', healthPath: '/', body: '{}' },
  kubernetes: {
    pod: {
      spec: {
        containers: [
          {
            name: 'server',
            image: testImage(),
            command: ['/usr/bin/node', '-e', script],
            args: ['${port}', String(limit), ...urls],
            ports: [{ containerPort: 8000 }],
          },
        ],
      },
    },
  },
})

const writeExperiment = (limit = 0, maxTrials = 2): string[] => {
  const document = {
    name: 'search',
    slo: '300ms',
    backend: 'kubernetes',
    devices: 'cpu',
    kubernetes: { image: testImage(), namespace: namespace.name },
    stages: {
      tokenise: {
        ...createStage(['${stages.embed.url}', '${stages.rank.url}']),
        calls: ['embed', 'rank'],
        space: { cpuCores: [0.2], memoryMiB: [150] },
      },
      embed: {
        ...createStage([]),
        replicas: [1, 2],
        space: { cpuCores: [0.1], memoryMiB: [150] },
      },
      rank: { ...createStage([], limit), space: { cpuCores: [0.1], memoryMiB: [150] } },
    },
    sampler: 'grid',
    budget: { maxTrials },
    load: { trialTime: '3s' },
    confirm: false,
  }
  writeFileSync(join(box.folder, 'experiment.yaml'), JSON.stringify(document))
  return ['-f', 'experiment.yaml']
}

const readTrials = (stdout: string): FinishedTrial[] =>
  stdout
    .trim()
    .split('\n')
    .flatMap((line) => (JSON.parse(line) as { trial?: FinishedTrial }).trial ?? [])

test('a pipeline of three stages is tuned, with its replicas, and nothing is left', async () => {
  const { code, stdout, stderr } = await box.run([...writeExperiment(), '--events'])
  expect(code, stderr).toBe(0)
  const trials = readTrials(stdout)
  const complete = trials.filter((trial) => trial.state === 'complete')
  expect(
    complete.map(({ configuration }) => configuration['embed.replicas']).sort(),
    stderr,
  ).toEqual([1, 2])
  for (const { measurement, usage } of complete) {
    expect(measurement.capacityRps).toBeGreaterThan(0)
    // The anonymous memory of three servers, about 17 MiB each.
    expect(usage!.peakRssMiB).toBeGreaterThan(30)
  }
})

test('a stage that dies under load is named, with its reason', async () => {
  const { code, stdout, stderr } = await box.run([...writeExperiment(60, 1), '--events'])
  expect(code).not.toBe(0)
  const trials = readTrials(stdout)
  expect(trials.length, stderr).toBeGreaterThan(0)
  expect(JSON.stringify(trials)).toMatch(/stage rank: .*exit code 3.*the index is corrupt/)
})

test('Ctrl-C ends all stages', async () => {
  const running = box.start([...writeExperiment(), '--plain'])
  await running.said('ready after')
  running.child.kill('SIGINT')
  expect((await running.result).code).toBe(130)
})

test('tune clean removes what a killed tuner left of all stages', async () => {
  const running = box.start([...writeExperiment(), '--plain'])
  await running.said('ready after')
  running.child.kill('SIGKILL')
  await running.result
  const listed = await box.run(['clean', '--namespace', namespace.name])
  const [, id] = /leases\/tune-(\S+)/.exec(listed.stdout)!
  const { code } = await box.run(['clean', id!, '--namespace', namespace.name])
  expect(code).toBe(0)
})
