/** Experiments on a real cluster, as their users run them. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  createNamespace,
  type TestNamespace,
  testImage,
  until,
} from '../../trials/launchers/kubernetes/testing/namespace.ts'
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

interface Document {
  readonly [key: string]: unknown
}
const experiment = (change: Document = {}, kubernetes: Document = {}) => {
  const document = {
    model: 'bert',
    slo: '300ms',
    backend: 'kubernetes',
    devices: 'emulated',
    space: {
      cpuCores: [0.3],
      memoryMiB: [400],
      gpu: ['T4'],
      gpuMemoryPercent: [100],
      batchSize: [1, 2, 4, 8],
    },
    kubernetes: { image: testImage(), namespace: namespace.name, ...kubernetes },
    budget: { maxTrials: 3 },
    load: { trialTime: '3s' },
    confirm: false,
    ...change,
  }
  writeFileSync(join(box.folder, 'experiment.yaml'), JSON.stringify(document))
  return ['-f', 'experiment.yaml']
}
interface Event {
  readonly type: string
  readonly number?: number
  readonly resumedTrials?: number
  readonly trial?: {
    readonly number: number
    readonly state: string
    readonly reason?: string
    readonly measurement?: { readonly caveats: string[] }
    readonly usage?: { readonly peakRssMiB?: number }
  }
}
const eventsOf = (stdout: string): Event[] =>
  stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Event)

describe('tune on a cluster', () => {
  test('trials in parallel, loaded from inside; one that needs more memory than it gets is infeasible; nothing is left', async () => {
    const args = experiment({
      space: {
        cpuCores: [0.3],
        memoryMiB: [16, 400],
        gpu: ['T4'],
        gpuMemoryPercent: [100],
        batchSize: [1, 2],
      },
      sampler: 'grid',
      parallel: 2,
      budget: { maxTrials: 4 },
    })
    const { code, stdout, stderr } = await box.run([...args, '--events'])
    expect(code, stderr).toBe(0)
    const events = eventsOf(stdout)
    const trials = events.flatMap(({ trial }) => (trial ? [trial] : []))
    // A trial that the machine failed is tried again.
    const states = trials
      .map(({ state, reason }) => reason ?? state)
      .filter((state) => state !== 'failed')
      .sort()
    // A kernel may also reclaim the pages of such a process for ever, in place of killing it: then
    // it is never ready.
    const starved = expect.stringMatching(/^(out-of-memory|never-ready)$/)
    expect(states, stderr).toEqual(['complete', 'complete', starved, starved])
    // By the node's own counters, through the API server.
    for (const { state, usage } of trials)
      if (state === 'complete') expect(usage!.peakRssMiB).toBeGreaterThan(30)
    const order = events
      .map(({ type }) => type)
      .filter((type) => type === 'trial-started' || type === 'trial-finished')
    expect(order.slice(0, 2)).toEqual(['trial-started', 'trial-started'])
    expect(events.filter(({ type }) => type === 'load-step').length).toBeGreaterThan(4)
  })

  test('real inference on CPU, loaded through the API server, which is said', async () => {
    const args = experiment(
      {
        model: 'bert-tiny',
        devices: 'cpu',
        space: { cpuCores: [0.5], memoryMiB: [600], batchSize: [1] },
        budget: { maxTrials: 1 },
      },
      { loadFrom: 'port-forward' },
    )
    const { code, stdout, stderr } = await box.run([...args, '--json'])
    expect(code, stderr).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ provenance: 'measured' })
    expect(stderr).toContain('through the API server')
  })

  test('load through a Service of the trial, by its name, with the bodies of a file', async () => {
    const body = {
      inputs: [{ name: 'text', shape: [1], datatype: 'BYTES', data: ['a line of a file'] }],
    }
    writeFileSync(join(box.folder, 'bodies.jsonl'), `${JSON.stringify(body)}\n`)
    const args = experiment(
      { budget: { maxTrials: 1 }, load: { trialTime: '3s', payload: 'bodies.jsonl' } },
      { through: 'service' },
    )
    const { code, stdout, stderr } = await box.run([...args, '--events'])
    expect(code, stderr).toBe(0)
    expect(stdout + stderr).toContain('through one Service per trial')
    expect(eventsOf(stdout).flatMap(({ trial }) => trial?.state ?? [])).toEqual(['complete'])
  })

  test('kill -9 in the middle of a trial, then resume: leftovers swept, finished trials kept, the interrupted one run again', async () => {
    const first = box.start([...experiment({ budget: { maxTrials: 2 } }), '--plain'])
    await first.said('✓ #')
    await first.said('trial 2 of')
    // The first trial's pod of load may still be there, and be gone a moment later.
    await until(async () =>
      (await namespace.leftovers()).some((object) => /^pods\/tune-.*-[2-9]-[^-]+$/.test(object)),
    )
    first.child.kill('SIGKILL')
    await first.result
    expect((await namespace.leftovers()).join(' ')).toContain('pods/tune-')
    const { code, stdout, stderr } = await box.run(['resume', '--events'])
    expect(code, stderr).toBe(0)
    const events = eventsOf(stdout)
    const { type, resumedTrials = 0 } = events[0]!
    expect(type).toBe('experiment-started')
    expect(resumedTrials).toBeGreaterThanOrEqual(1)
    const numbers = events.flatMap(({ trial }) => (trial ? [trial.number] : []))
    expect(numbers[0]).toBe(resumedTrials + 1)
    expect(numbers.length).toBeGreaterThanOrEqual(1)
  })

  test('Ctrl-C ends the trial and leaves nothing', async () => {
    const running = box.start([...experiment(), '--plain'])
    await running.said('ready after')
    running.child.kill('SIGINT')
    expect((await running.result).code).toBe(130)
  })

  test('tune clean shows and removes what a killed tuner left', async () => {
    const running = box.start([...experiment(), '--plain'])
    await running.said('ready after')
    running.child.kill('SIGKILL')
    await running.result
    const listed = await box.run(['clean', '--namespace', namespace.name])
    expect(listed.stdout).toMatch(/pods\/tune-bert-.*leases\/tune-bert-/s)
    const [, id] = /leases\/tune-(\S+)/.exec(listed.stdout)!
    const { code, stdout } = await box.run(['clean', id!, '--namespace', namespace.name])
    expect(code).toBe(0)
    expect(stdout).toContain('removed')
  })

  test('a typo in the pod template costs no trial', async () => {
    const pod = {
      spec: {
        containers: [
          {
            name: 'server',
            image: testImage(),
            imagePullPolice: 'Never',
            ports: [{ containerPort: 8000 }],
          },
        ],
      },
    }
    const args = experiment(
      { space: { cpuCores: [0.5] }, devices: 'cpu', predictor: { protocol: 'oip-v2' } },
      { pod },
    )
    const { code, stderr } = await box.run(args)
    expect(code, stderr).not.toBe(0)
    expect(stderr).toContain('containers[0].imagePullPolice')
    expect(stderr).not.toContain('trial 1')
  })

  test('no cluster is a sentence and a hint', async () => {
    const { code, stderr } = await box.run(experiment(), {
      KUBECONFIG: join(box.folder, 'none'),
      HOME: box.folder,
    })
    expect(code).not.toBe(0)
    expect(stderr).toMatch(/hint: set KUBECONFIG/)
    expect(stderr).not.toContain('    at ')
  })
})
