import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { mean } from 'simple-statistics'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { HttpLoadGenerator } from '../../../profiler/index.ts'
import { protocolFor } from '../../../profiler/protocols/index.ts'
import { inspectCgroups } from '../../machine/cgroups.ts'
import { inspectMachine, type MachineFacts } from '../../machine/machine-facts.ts'
import type { Pipeline } from '../../pipeline/pipeline.ts'
import type { Predictor } from '../../types.ts'
import { launcherContract } from '../launcher.contract.ts'
import type { CommandTemplate } from '../template.ts'
import type { LocalLauncherOptions } from './launch.ts'
import { createLocalPipelineLauncher } from './pipeline-launcher.ts'
import { isAlive, readProcessStat } from './processes.ts'

const server = fileURLToPath(new URL('../testing/server.mjs', import.meta.url))
const caller = fileURLToPath(new URL('../testing/caller.mjs', import.meta.url))
const never = new AbortController().signal

let folder: string
let machine: MachineFacts
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tune-local-pipeline-'))
  machine = await inspectMachine()
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A caller that visits the second stage twice for each request. */
const pipeline: Pipeline = {
  stages: [
    { name: 'first', calls: [{ stage: 'second', ratio: 2 }], parallelCalls: false },
    { name: 'second', calls: [], parallelCalls: false },
  ],
}

const createLauncher = () => {
  const pids = `--pids=${join(folder, 'pids')}`
  const createOptions = (more: Pick<CommandTemplate, 'command' | 'env'>): LocalLauncherOptions => ({
    template: { kind: 'command', model: 'm', protocol: 'json', readyTimeoutS: 10, ...more },
    parameters: [{ name: 'behaviour', category: 'server' }],
    defaults: { behaviour: 'serve' },
    protocol: protocolFor('json', { expect: 'arguments' }),
    payload: { kind: 'generated', seed: 1, count: 2 },
    runDirectory: join(folder, 'experiment'),
    machine,
    graceMs: 1_000,
  })
  return createLocalPipelineLauncher({
    pipeline,
    machine,
    stages: new Map([
      [
        'first',
        createOptions({
          command: [
            process.execPath,
            caller,
            '--port=${port}',
            '--url=${stages.second.url}',
            '--calls=2',
            pids,
          ],
        }),
      ],
      [
        'second',
        createOptions({
          command: [process.execPath, server, '--port=${port}', pids],
          env: { BEHAVIOUR: '${behaviour}', SERVICE_MS: '2' },
        }),
      ],
    ]),
  })
}

const configuration = {
  'first.cpuCores': 0.5,
  'first.replicas': 1,
  'second.cpuCores': 0.25,
  'second.replicas': 2,
}

const findLeftovers = (): string[] => {
  const pids = join(folder, 'pids')
  const living = (existsSync(pids) ? readFileSync(pids, 'utf8').trim().split('\n') : [])
    .map(Number)
    .filter((pid) => {
      const stat = readProcessStat(pid)
      return stat !== undefined && isAlive(pid, stat.startTicks)
    })
  const notes = join(folder, 'running')
  return [
    ...living.map((pid) => `process ${pid}`),
    ...(existsSync(notes) ? readdirSync(notes) : []).map((name) => `note ${name}`),
  ]
}

const { cpuParent } = inspectCgroups()

describe.skipIf(cpuParent === undefined)('where CPU time may be limited', () => {
  launcherContract('a local launcher of pipelines', {
    create: createLauncher,
    good: configuration,
    other: { ...configuration, 'second.replicas': 1 },
    infeasible: {
      configuration: { ...configuration, 'second.behaviour': 'crash' },
      reason: 'crashed',
    },
    leftovers: findLeftovers,
    abortAfterMs: [1, 300, 900],
  })

  describe('a launched pipeline', () => {
    let predictor: Predictor | undefined
    afterEach(async () => {
      await predictor?.stop()
      predictor = undefined
      expect(findLeftovers()).toEqual([])
    })

    test('reports visits, own times and isolation of each stage', async () => {
      predictor = await createLauncher().launch(configuration, 1, never)
      expect(predictor.isolation).toMatch(/^first: core .*0.5 cores.*; second: .*; second: /)
      const generator = new HttpLoadGenerator()
      const arrivals = { kind: 'poisson' } as const
      const load = { kind: 'open', rateRps: 40, durationS: 3, arrivals, seed: 1 } as const
      const { latencyMs } = await generator.play(predictor.target, load, never)
      await generator.close()
      const { stages } = await predictor.usage()
      const [first, second] = stages!
      expect(first).toMatchObject({ stage: 'first', visits: 1 })
      expect(second).toMatchObject({ stage: 'second', visits: 2, busier: 'cpu' })
      expect(second!.meanMs).toBeGreaterThanOrEqual(2)
      expect(first!.meanMs).toBeGreaterThan(0)
      expect(first!.meanMs! + 2 * second!.meanMs!).toBeCloseTo(mean([...latencyMs]), 6)
      const [curve] = second!.loads!
      expect(second!.loads).toHaveLength(1)
      expect(curve).toMatchObject({ visits: 2, meanMs: second!.meanMs, isOpen: true, gpuMs: 0 })
      // Of one of its two replicas.
      expect(curve!.visitRps * curve!.seconds).toBeCloseTo(latencyMs.length, 0)
      expect(curve!.cpuMs).toBeGreaterThan(0)
    })

    test('divides its calls over the replicas of a stage', async () => {
      predictor = await createLauncher().launch(configuration, 1, never)
      if (predictor.target.kind !== 'http') throw new Error('not http')
      const { url, path } = predictor.target
      const answers = await Promise.all(
        Array.from({ length: 8 }, async () => {
          const answer = await fetch(url + path, { method: 'POST', body: '{}' })
          return (await answer.json()) as { answers: { arguments: string[] }[] }
        }),
      )
      const ports = answers.flatMap(({ answers }) => answers.map((one) => one.arguments[0]))
      expect(new Set(ports).size).toBe(2)
    })

    test('names the stage that ends', async () => {
      predictor = await createLauncher().launch(configuration, 1, never)
      const [, second] = readFileSync(join(folder, 'pids'), 'utf8').trim().split('\n').slice(-3)
      process.kill(Number(second), 'SIGKILL')
      expect((await predictor.died)!.what).toMatch(/^stage second: /)
    })

    test('names the stage that cannot start', async () => {
      await expect(
        createLauncher().launch({ ...configuration, 'second.behaviour': 'crash' }, 1, never),
      ).rejects.toThrow(/^stage second: .*exit code 3/)
    })

    test('is refused where its stages need more cores than there are', async () => {
      const tooMany = { ...configuration, 'first.cpuCores': machine.affinity.length }
      await expect(createLauncher().launch(tooMany, 1, never)).rejects.toThrow(
        /the stages need \d+ cores together, but this process may use only/,
      )
    })
  })
})
