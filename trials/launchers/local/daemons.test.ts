/**
 * What a predictor starts and lets go of, with nothing inherited: its own session, no environment,
 * and no output where it is that thorough.
 */
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Protocol } from '../../../profiler/protocols/protocol.ts'
import { type CgroupFacts, inspectCgroups } from '../../machine/cgroups.ts'
import { inspectMachine } from '../../machine/machine-facts.ts'
import { openLog } from '../predictor-log.ts'
import { createControlGroup } from './control-group.ts'
import { findLeftListeners, sweepLeftovers, writeRunningNote } from './leftovers.ts'
import { createLocalLauncher } from './local-launcher.ts'
import { startGroup } from './process-group.ts'
import { listMembers, readProcessStat } from './processes.ts'

const server = fileURLToPath(new URL('../testing/server.mjs', import.meta.url))
const plainProtocol: Protocol = {
  name: 'json',
  isReady: (url) =>
    fetch(`${url}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    ),
  prepare: async (url) => ({
    kind: 'http',
    url,
    path: '/predict',
    headers: {},
    bodies: [],
    timeoutMs: 1_000,
  }),
}

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tune-daemon-'))
})
afterEach(() => {
  for (const pid of daemons()) if (isRunning(pid)) process.kill(pid, 'SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

const isRunning = (pid: number) => !['Z', undefined].includes(readProcessStat(pid)?.state)
const daemons = () => {
  const path = join(folder, 'daemon')
  return existsSync(path)
    ? readFileSync(path, 'utf8').trim().split('\n').filter(Boolean).map(Number)
    : []
}

/**
 * A shell that leaves a daemon behind as told, then waits, in a control group where one can be
 * made.
 */
async function withDaemon(cgroups: CgroupFacts, output: string) {
  const daemon = `setsid env -i /bin/sh -c 'echo $$ >${folder}/daemon; exec sleep 1000' ${output} &`
  const controlGroup = await createControlGroup(
    cgroups,
    `tune-daemons-${process.pid}-${Math.floor(performance.now())}`,
    { trackProcesses: true },
  )
  const note = writeRunningNote(join(folder, 'running'), controlGroup.folders)
  mkdirSync(join(folder, 'trial'))
  const log = openLog(join(folder, 'trial'))
  const group = await startGroup(
    {
      argv: controlGroup.wrap(['/bin/sh', '-c', `${daemon} sleep 1000`]),
      env: { PATH: process.env.PATH! },
      cwd: folder,
    },
    note.cookie,
    log,
    controlGroup.folders,
  )
  note.addProcesses(group.identity)
  await expect.poll(() => daemons().length, { timeout: 10_000 }).toBe(1)
  return { group, controlGroup, note }
}

/** Their tuner is gone. */
function disown(running: string): void {
  for (const name of readdirSync(running)) {
    const note = JSON.parse(readFileSync(join(running, name), 'utf8'))
    writeFileSync(
      join(running, name),
      JSON.stringify({ ...note, owner: { ...note.owner, startTicks: 0 } }),
    )
  }
}

const noSetsid = (() => {
  try {
    execFileSync('setsid', ['true'])
    return false
  } catch {
    return true
  }
})()

describe.skipIf(process.platform !== 'linux' || noSetsid)('a daemon without environment', () => {
  const cgroups = inspectCgroups()
  describe.skipIf(cgroups.holdParent === undefined)(
    'in a control group (skipped where none may be made)',
    () => {
      const silent = '>/dev/null 2>&1 </dev/null'
      test('is a member, and ends with its predictor', async () => {
        const { group, controlGroup } = await withDaemon(cgroups, silent)
        expect(group.members().map(({ pid }) => pid)).toEqual(expect.arrayContaining(daemons()))
        await group.stop(200)
        expect(daemons().filter(isRunning)).toEqual([])
        await controlGroup.end()
        expect(controlGroup.folders.filter(existsSync)).toEqual([])
      })

      test('is ended by whoever sweeps after a tuner that was killed, its first process gone too', async () => {
        const { group, controlGroup } = await withDaemon(cgroups, silent)
        process.kill(group.identity.leader, 'SIGKILL')
        await group.exited
        expect(listMembers(group.identity, false).map(({ pid }) => pid)).toEqual(
          expect.arrayContaining(daemons()),
        )
        disown(join(folder, 'running'))
        await sweepLeftovers(join(folder, 'running'), 200)
        expect(daemons().filter(isRunning)).toEqual([])
        expect(controlGroup.folders.filter(existsSync)).toEqual([])
      })
    },
  )

  test('without a control group it is known by its output', async () => {
    const { group } = await withDaemon({ version: 0 }, '')
    await group.stop(200)
    expect(daemons().filter(isRunning)).toEqual([])
  })

  const launchOne = async () => {
    const serve = `${process.execPath} ${server} --port=\${port} --pids=${folder}/daemon`
    const command = [
      '/bin/sh',
      '-c',
      `setsid env -i ${serve} >/dev/null 2>&1 </dev/null & sleep 1000`,
    ]
    const machine = { ...(await inspectMachine()), cgroups: { version: 0 } as const }
    const launcher = createLocalLauncher({
      template: { kind: 'command', model: 'm', command, protocol: 'json' },
      parameters: [],
      protocol: plainProtocol,
      payload: { kind: 'generated', seed: 1, count: 1 },
      runDirectory: join(folder, 'experiment'),
      machine,
      graceMs: 200,
    })
    return { launcher, predictor: await launcher.launch({}, 1, new AbortController().signal) }
  }

  test('that is found by nothing but its port is told of after a tuner that was killed, until it has ended', async () => {
    const { launcher, predictor } = await launchOne()
    const running = join(folder, 'running')
    disown(running)
    const sweep = async () => {
      const told: string[] = []
      await launcher.sweep(undefined, (left) => told.push(left))
      return told
    }
    const [pid] = daemons()
    const words = expect.stringMatching(
      new RegExp(`^process ${pid} \\(.*server\\.mjs.*\\) listens on port \\d+, .*kill ${pid}`),
    )
    expect(await sweep()).toEqual([words])
    expect(await sweep()).toEqual([words])
    expect(await findLeftListeners(running)).toEqual([expect.objectContaining({ pid })])
    expect(isRunning(pid!)).toBe(true)
    process.kill(pid!, 'SIGKILL')
    await predictor.stop()
    expect(await sweep()).toEqual([])
    expect(readdirSync(running)).toEqual([])
  })

  test('that is found by nothing but its port is told of, with what ends it', async () => {
    const { predictor } = await launchOne()
    const [pid] = daemons()
    await expect(predictor.stop()).rejects.toMatchObject({
      message: expect.stringMatching(
        new RegExp(`^process ${pid} \\(.*server\\.mjs.*\\) still listens on port \\d+`),
      ),
      hint: expect.stringContaining(`kill ${pid}`),
      final: 'experiment',
    })
  })
})
