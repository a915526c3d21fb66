import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { planFleet } from '../../../reports/fleet/fleet-plan.ts'
import { interferenceOf } from '../../../reports/fleet/interference.ts'
import type { MeasuredPair } from '../../../reports/fleet/measured-pairs.ts'
import type { FleetModel } from '../../../reports/fleet/packing.ts'
import { unmeasuredContents } from '../../../reports/fleet/sharing-blocks.ts'
import { mpsPull } from '../../../trials/devices/mps-pull.ts'
import { inspectMachine, type MachineFacts } from '../../../trials/machine/machine-facts.ts'
import { defaultPriceBook } from '../../../trials/prices/book.ts'
import { CliBox } from '../../testing/run-cli.ts'
import { type FleetModelEntry, readFleetFile } from './fleet-file.ts'
import { measurePairs } from './measure-pairs.ts'
import { openSource } from './model-source.ts'
import { pairServerOf } from './pair-servers.ts'

/**
 * What stands for the GPU that servers of one's own share: work of one at a time, in the order in
 * which it comes, whatever the cores do.
 */
let busy = Promise.resolve()
const device = createServer((request, answer) => {
  busy = busy.then(() => setTimeout(Number(request.url!.slice(1)))).then(() => void answer.end())
})
const startDevice = async (): Promise<string> => {
  await new Promise<void>((resolve) => device.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(device.address() as AddressInfo).port}`
}

let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'pairs-'))
  writeFileSync(
    join(folder, 'a.csv'),
    'gpu,gpuSharePercent,batch,sequenceLength,throughputRps,latencyMs,memoryMiB\nT4,50,8,128,200,20,3000\nT4,100,8,128,300,12,3000\n',
  )
  writeFileSync(
    join(folder, 'own.csv'),
    'gpu,gpuSharePercent,workMs,throughputRps,latencyMs,memoryMiB\nT4,50,30,200,20,3000\nT4,100,30,300,12,3000\n',
  )
  writeFileSync(
    join(folder, 'own.mjs'),
    `import { createServer } from 'node:http'
const [port, workMs, device] = process.argv.slice(2)
createServer(async (request, answer) => {
  if (request.url === '/predict') await fetch(device + '/' + workMs)
  answer.setHeader('content-type', 'application/json').end('{"ok": true}')
}).listen(Number(port), '127.0.0.1')
`,
  )
  writeFileSync(
    join(folder, 'own.yaml'),
    `model: bert
slo: 300ms
predictor:
  command: ['${process.execPath}', own.mjs, '\${port}', '\${workMs}', '${await startDevice()}']
  cwd: .
  protocol: json
  path: /predict
  healthPath: /health
  body: '{"x": 1}'
space:
  workMs: {values: [30, 60], category: server}
`,
  )
})
afterAll(() => {
  device.close()
  vi.unstubAllEnvs()
  rmSync(folder, { recursive: true })
})

async function planned(ofA: string, ofB: string, table = 'a.csv') {
  const path = join(folder, 'fleet.yaml')
  writeFileSync(
    path,
    `gpus: {T4: {mps: true}}\nmodels:\n  a: {table: ${table}, slo: 300ms, demand: 40${ofA}}\n  b: {table: ${table}, slo: 300ms, demand: 40${ofB}}\n`,
  )
  const file = readFleetFile(path, defaultPriceBook)
  const models: (FleetModel & Pick<FleetModelEntry, 'demand'>)[] = []
  for (const entry of file.models)
    models.push({
      ...(await openSource(entry, 'none', file)),
      name: entry.name,
      demand: entry.demand,
    })
  const packed = (pairs: readonly MeasuredPair[]) =>
    planFleet(models, file.kinds, 0, 5, 'UTC', {
      ...file.rules,
      ...(pairs.length > 0 && { slows: interferenceOf(pairs) }),
    })
  return { file, packed, plan: await packed([]) }
}

/** A machine that says it has such a GPU, and shares it by MPS; one core of this one. */
async function withT4(more: Partial<MachineFacts> = {}): Promise<MachineFacts> {
  const machine = await inspectMachine()
  const t4 = {
    vendor: 'nvidia',
    index: 0,
    uuid: 'GPU-1',
    name: 'Tesla T4',
    memoryMiB: 15_360,
    usedMemoryMiB: 0,
    driver: '535',
    computeMode: 'Default',
  } as const
  return {
    ...machine,
    affinity: [machine.affinity.at(-1)!],
    gpus: [{ ...t4, migEnabled: false, migDevices: [] }],
    mps: true,
    ...more,
  }
}

const asked = (
  more: {
    readonly signal?: AbortSignal
    readonly say?: (what: string) => void
    readonly keep?: () => void
    readonly machine?: MachineFacts
  } = {},
) => ({
  seconds: 1.5,
  signal: new AbortController().signal,
  say: () => {},
  keep: () => {},
  ...more,
})

/** Processes that this one has started. */
const childrenOf = () =>
  readdirSync('/proc/self/task').flatMap((task) =>
    readFileSync(`/proc/self/task/${task}/children`, 'utf8').split(' ').filter(Boolean),
  )

test('both are launched on their shares, loaded alone and beside one another, and what was seen is planned with', async ({
  skip,
}) => {
  const { file, packed, plan } = await planned(', builtin: bert', ', builtin: bert-large')
  const kept: MeasuredPair[] = []
  const keep = (pairs: readonly MeasuredPair[]) => void kept.push(...pairs)
  const found = await measurePairs({
    atPeaks: plan.atPeaks,
    models: file.models,
    ...asked(),
    keep,
  }).catch((error: Error) => {
    if (/kept its GPU busy|did not tell/.test(error.message)) skip(`disturbed: ${error.message}`)
    throw error
  })
  expect(found.map(({ model, others, emulated }) => [model, others, emulated])).toEqual([
    ['a', ['b'], true],
    ['b', ['a'], true],
  ])
  expect(kept).toEqual(found)
  // The larger model's batches take longer: which was which.
  expect(found[1]!.aloneMs).toBeGreaterThan(2 * found[0]!.aloneMs)
  const again = await packed(found)
  expect(again.atPeaks.gpus[0]!.slots.map(({ segment }) => segment!.beside)).toMatchObject(
    Array(2).fill({ how: 'measured', emulated: true }),
  )
  expect(unmeasuredContents(again.atPeaks)).toEqual([])
  expect(await measurePairs({ atPeaks: again.atPeaks, models: file.models, ...asked() })).toEqual(
    [],
  )
  // What emulated GPUs do, by what the neighbour on the other half took.
  if (found.some(({ othersShare }) => othersShare < 0.35))
    skip('disturbed: a neighbour was kept from being busy')
  for (const { slowdown, othersShare } of found) {
    expect(othersShare).toBeLessThanOrEqual(0.5)
    expect((slowdown - 1) / othersShare / mpsPull.mean).toBeGreaterThan(0.5)
    expect((slowdown - 1) / othersShare / mpsPull.mean).toBeLessThan(1.5)
  }
})

test('servers of the user’s own, as experiment files start them, are measured by their answers: two on one device take about twice as long', async ({
  skip,
}) => {
  const { file, packed, plan } = await planned(
    ', server: own.yaml',
    ', server: own.yaml',
    'own.csv',
  )
  const found = await measurePairs({
    atPeaks: plan.atPeaks,
    models: file.models,
    ...asked({ machine: await withT4() }),
  })
  expect(
    found.map(({ model, others, othersShare, each, emulated }) => [
      model,
      others,
      othersShare,
      each,
      emulated,
    ]),
  ).toEqual([
    ['a', ['b'], 0.5, 'answer', false],
    ['b', ['a'], 0.5, 'answer', false],
  ])
  const again = await packed(found)
  for (const { segment } of again.atPeaks.gpus.flatMap(({ slots }) => slots))
    expect(segment!.beside?.how ?? 'measured').toBe('measured')
  if (found.some(({ aloneMs }) => aloneMs > 45))
    skip('disturbed: alone it took half as long again as its work')
  for (const { aloneMs, slowdown } of found) {
    expect(aloneMs).toBeGreaterThan(29)
    expect(Math.abs(slowdown - 2)).toBeLessThan(0.5)
  }
}, 60_000)

test('what keeps a server of the user’s own from being started is said before any is', async () => {
  const place = async (more: Partial<MachineFacts> = {}) => ({
    folder,
    machine: await withT4(more),
    number: 0,
    of: 2,
  })
  const entry = (server: string) =>
    ({
      name: 'a',
      server: join(folder, server),
      demand: { spans: [], what: '' },
    }) as FleetModelEntry
  const segment = {
    gpu: 'T4',
    slice: '50%',
    share: 0.5,
    gpus: 1,
    rateRps: 9,
    label: '',
    row: { line: 2, values: { workMs: '30' } },
  }
  const server = pairServerOf(
    entry('own.yaml'),
    segment,
    await place({ affinity: [0, 1, 2, 3, 4] }),
  )
  expect(server).toMatchObject({ connections: 4, countsBatches: false })
  expect(server.configuration).toMatchObject({
    workMs: 30,
    cpuCores: 2,
    gpu: 'T4',
    gpuMemoryPercent: 50,
  })
  const unsaid = { ...segment, row: { line: 7, values: { batch: '16', processes: '2' } } }
  const whole = await place()
  expect(() => pairServerOf(entry('own.yaml'), unsaid, whole)).toThrow(
    'line 7 of the table of a does not say its workMs',
  )
  const noMps = await place({ mps: false })
  expect(() => pairServerOf(entry('own.yaml'), segment, noMps)).toThrow(
    'no MPS daemon runs here to give a its share of a T4',
  )
  writeFileSync(
    join(folder, 'url.yaml'),
    'model: bert\nslo: 300ms\npredictor: {url: "http://127.0.0.1:1", protocol: oip-v2}\n',
  )
  expect(() => pairServerOf(entry('url.yaml'), segment, whole)).toThrow(
    'url.yaml, which a names, starts no command',
  )
  const { file, plan } = await planned(', server: own.yaml', ', server: own.yaml', 'own.csv')
  const noGpu = asked({ machine: await withT4({ gpus: [] }) })
  await expect(
    measurePairs({ atPeaks: plan.atPeaks, models: file.models, ...noGpu }),
  ).rejects.toThrow(/a on 50% of a T4: no T4 in this machine/)
})

test('models that nothing says how to serve are named before anything starts', async () => {
  const { file, plan } = await planned('', '')
  const said: string[] = []
  await expect(
    measurePairs({
      atPeaks: plan.atPeaks,
      models: file.models,
      ...asked({ say: (what) => said.push(what) }),
    }),
  ).rejects.toThrow('nothing says what serves a and b')
  expect(said).toEqual([])
})

test('interrupted while one is loaded, it ends at once and leaves no server and no folder', async () => {
  const { file, plan } = await planned(', builtin: bert', ', builtin: bert-large')
  const own = mkdtempSync(join(folder, 'own-'))
  vi.stubEnv('TMPDIR', own)
  const left = () => readdirSync(own).filter((name) => name.startsWith('tune-pairs-'))
  const stop = new AbortController()
  let running: string[] = []
  const say = (what: string) => {
    if (!what.startsWith('a alone')) return
    running = childrenOf()
    expect(left()).toHaveLength(1)
    stop.abort(new Error('enough'))
  }
  await expect(
    measurePairs({
      atPeaks: plan.atPeaks,
      models: file.models,
      ...asked({ signal: stop.signal, say }),
    }),
  ).rejects.toThrow('enough')
  expect(running.length).toBeGreaterThanOrEqual(2)
  expect(childrenOf().filter((pid) => running.includes(pid))).toEqual([])
  expect(left()).toEqual([])
})

test('--measure-pairs takes what is in its file as known, and says what keeps it from measuring the rest', async () => {
  const box = new CliBox()
  try {
    const header = 'gpu,model,beside,othersSharePercent,aloneMs,besideMs,provenance'
    for (const [name, text] of Object.entries({
      'a.csv':
        'gpu,gpuSharePercent,throughputRps,latencyMs,memoryMiB\nT4,50,200,20,3000\nT4,100,300,12,3000\n',
      'fleet.yaml':
        'gpus: {T4: {mps: true}}\nmodels:\n  a: {table: a.csv, slo: 300ms, demand: 40}\n  b: {table: a.csv, slo: 300ms, demand: 40}\n',
      'known.csv': `${header}\nT4,a,b,50,20,21,measured\nT4,b,a,50,20,22,emulated\n`,
      'other.csv': 'gpu,model\n',
    }))
      writeFileSync(join(box.folder, name), text)
    const measured = (path: string) =>
      box.run([
        'fleet',
        '-f',
        'fleet.yaml',
        '--solver-time',
        '5s',
        '--json',
        '--measure-pairs',
        path,
      ])
    const known = await measured('known.csv')
    expect(known).toMatchObject({ code: 0, stderr: expect.stringContaining('nothing to measure') })
    expect(
      JSON.parse(known.stdout).gpus[0].slices.map(({ beside }: { beside: object }) => beside),
    ).toMatchObject([
      { how: 'measured', expected: 1.05 },
      { how: 'measured', expected: 1.1, emulated: true },
    ])
    expect(await measured('new.csv')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('nothing says what serves a and b'),
    })
    expect(await measured('other.csv')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('other.csv has other columns'),
    })
    expect(readdirSync(box.folder)).not.toContain('new.csv')
  } finally {
    await box.end()
  }
})
