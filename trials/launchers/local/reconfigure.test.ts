/**
 * Against a server that keeps its start, in a file of its folder, and takes a limit while it runs.
 */
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { protocolFor } from '../../../profiler/protocols/index.ts'
import { inspectMachine } from '../../machine/machine-facts.ts'
import type { Launcher, Predictor } from '../../types.ts'
import { launcherContract } from '../launcher.contract.ts'
import type { TunedParameter } from '../placeholders.ts'
import type { CommandTemplate } from '../template.ts'
import { createLocalLauncher } from './local-launcher.ts'
import { reuseByReconfigure } from './reconfigure.ts'

const machine = await inspectMachine()
const never = new AbortController().signal
const parameters: TunedParameter[] = [
  { name: 'limit', category: 'server' },
  { name: 'width', category: 'args' },
]
/**
 * Limits above 9 are refused, 13 ends it a moment later, in which it is not ready; what is set is
 * told.
 */
const server = `
let [limit, ends] = [0, false]
require('node:http').createServer((q, r) => {
  const asked = /^\\/limit\\/(\\d+)/.exec(q.url)
  if (asked) {
    ends = asked[1] === '13'
    if (ends) return r.end('ok', () => setTimeout(() => process.exit(5), 100))
    if (Number(asked[1]) <= 9) limit = Number(asked[1])
    return r.writeHead(Number(asked[1]) <= 9 ? 200 : 400).end('no more than 9')
  }
  if (ends) return r.writeHead(503).end()
  r.end(JSON.stringify({ limit, pid: process.pid, args: process.argv.slice(2) }))
}).listen(Number(process.argv[1]), '127.0.0.1')`
const client = `
fetch('http://' + process.argv[1] + ':' + process.argv[2] + '/limit/' + process.argv[3])
  .then(async (answer) => { console.log(await answer.text()); process.exit(answer.ok ? 0 : 3) })`

let folder: string
let launcher: Launcher | undefined
const create = (
  reconfigure: readonly string[] = [
    process.execPath,
    '-e',
    client,
    '${host}',
    '${port}',
    '${limit}',
  ],
) => {
  const template: CommandTemplate = {
    kind: 'command',
    model: 'm',
    command: [process.execPath, '-e', server, '${port}', '${args}'],
    protocol: 'json',
    path: '/infer',
    healthPath: '/health',
    body: '{}',
    reconfigure,
    readyTimeoutS: 20,
  }
  const protocol = protocolFor('json', { path: '/infer', healthPath: '/health', template: '{}' })
  const payload = { kind: 'generated', seed: 1, count: 2 } as const
  const common = { template, parameters, protocol, payload }
  return reuseByReconfigure(
    createLocalLauncher({ ...common, runDirectory: join(folder, 'experiment'), machine }),
    common,
  )
}
const opened = (reconfigure?: readonly string[]): Launcher => {
  launcher = create(reconfigure)
  return launcher
}
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tune-reconfigured-'))
})
afterEach(async () => {
  await launcher?.close?.()
  rmSync(folder, { recursive: true })
})

launcherContract('a server that is reconfigured', {
  create: () => create(),
  good: { limit: 4, width: 1 },
  other: { limit: 4, width: 2 },
  infeasible: { configuration: { limit: 12, width: 1 }, reason: 'crashed' },
  leftovers: () =>
    existsSync(join(folder, 'running')) ? readdirSync(join(folder, 'running')) : [],
  abortAfterMs: [10, 150, 400],
})

const told = async ({ target }: Predictor) =>
  (await (await fetch(target.kind === 'http' ? target.url : '')).json()) as {
    limit: number
    pid: number
    args: string[]
  }

test('values are set on the server that runs, from its start on; what it is started with starts another', async () => {
  const launcher = opened()
  expect([...launcher.changesRunning!]).toEqual(['limit'])
  const seen: (Awaited<ReturnType<typeof told>> & { isolation: string })[] = []
  for (const [i, configuration] of [
    { limit: 4, width: 1 },
    { limit: 7, width: 1 },
    { limit: 7, width: 2 },
  ].entries()) {
    const predictor = await launcher.launch(configuration, i + 1, never)
    seen.push({ ...(await told(predictor)), isolation: predictor.isolation })
    await predictor.stop()
  }
  expect(seen.map(({ limit }) => limit)).toEqual([4, 7, 7])
  expect(seen.map(({ args }) => args)).toEqual([['--width=1'], ['--width=1'], ['--width=2']])
  expect(seen[1]!.pid).toBe(seen[0]!.pid)
  expect(seen[2]!.pid).not.toBe(seen[0]!.pid)
  expect(seen.map(({ isolation }) => isolation.includes('server reused, reconfigured'))).toEqual([
    false,
    true,
    false,
  ])
})

test('what the server refuses is infeasible, in its words, and it is not used again', async () => {
  const launcher = opened()
  const first = await launcher.launch({ limit: 4, width: 1 }, 1, never)
  const { pid } = await told(first)
  await first.stop()
  await expect(launcher.launch({ limit: 12, width: 1 }, 2, never)).rejects.toMatchObject({
    name: 'InfeasibleError',
    reason: 'crashed',
    message: 'reconfigure ended with 3: no more than 9',
  })
  const next = await launcher.launch({ limit: 5, width: 1 }, 3, never)
  expect((await told(next)).pid).not.toBe(pid)
  await next.stop()
})

test('one that ends of what it is told is infeasible at once, by its exit', async () => {
  const launcher = opened()
  const startedMs = performance.now()
  await expect(launcher.launch({ limit: 13, width: 1 }, 1, never)).rejects.toMatchObject({
    name: 'InfeasibleError',
    message: expect.stringMatching(/5/),
  })
  expect(performance.now() - startedMs).toBeLessThan(15_000)
})

test('a program that is not there ends the experiment', async () => {
  const launcher = opened(['no-such-program', '${limit}'])
  await expect(launcher.launch({ limit: 4, width: 1 }, 1, never)).rejects.toMatchObject({
    name: 'LaunchError',
    final: 'experiment',
  })
})

test('an end that is asked for ends what is under way', async () => {
  const launcher = opened([process.execPath, '-e', 'setTimeout(() => {}, 60_000)', '${limit}'])
  const ending = new AbortController()
  const launched = launcher.launch({ limit: 4, width: 1 }, 1, ending.signal)
  setTimeout(() => ending.abort(new Error('enough')), 1500)
  await expect(launched).rejects.toThrow('enough')
})
