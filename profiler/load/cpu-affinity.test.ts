import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, afterEach, expect, test } from 'vitest'
import { signal } from '../testing/loaded-server.ts'
import { startTestServer, type TestServer } from '../testing/servers.ts'
import { pinIfPossible, readAllowedCores } from './cpu-affinity.ts'
import { HttpLoadGenerator } from './http-generator.ts'

const own = readAllowedCores(process.pid)
/** Systems without affinity, and machines with one core, have nothing to separate. */
const canSeparate = own.length > 1
const generator = new HttpLoadGenerator()
let running: ChildProcess[] = []
let server: TestServer | undefined
afterEach(async () => {
  for (const one of running) one.kill('SIGKILL')
  running = []
  await server?.stop()
})
afterAll(() => generator.close())

const startOn = async (cores: readonly number[]): Promise<number> => {
  const sleeper = spawn('sleep', ['60'])
  running.push(sleeper)
  await once(sleeper, 'spawn')
  await pinIfPossible(sleeper.pid!, cores)
  return sleeper.pid!
}
/** Cores of the generator's process after a load on a server with these processes. */
const coresAfterLoad = async (serverPids: readonly number[]): Promise<readonly number[]> => {
  const target = { ...server!.target, serverPids: () => serverPids }
  await generator.play(target, { kind: 'closed', connections: 1, durationS: 0.05 }, signal)
  return readAllowedCores((generator as unknown as { child: ChildProcess }).child.pid!)
}

test.skipIf(!canSeparate)(
  'the load generator keeps off the cores of the server, as long as that leaves it one',
  async () => {
    server = await startTestServer({ time: { kind: 'fixed', ms: 1 } })
    const last = await startOn(own.slice(-1))
    expect(readAllowedCores(last)).toEqual(own.slice(-1))
    expect(await coresAfterLoad([last])).toEqual(own.slice(0, -1))
    // A server of several processes takes the cores of all.
    const rest = await startOn(own.slice(0, -1))
    expect(await coresAfterLoad([last, rest])).toEqual(own)
    const first = await startOn(own.slice(0, 1))
    expect(await coresAfterLoad([first])).toEqual(own.slice(1))
    expect(await coresAfterLoad([])).toEqual(own)
  },
)

test('a process that has ended has no cores, and stays where it was', async () => {
  const ended = spawn('true')
  await once(ended, 'exit')
  expect(readAllowedCores(ended.pid!)).toEqual([])
  await pinIfPossible(ended.pid!, own)
})
