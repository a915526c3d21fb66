import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import { openBackend } from '../run/assemble.ts'
import { backendContract } from './backend.contract.ts'
import { asCommand, type Behaviour, experimentIn } from './testing/served.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-local-backend-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const open = async (behaviour: Behaviour) => {
  const experiment = experimentIn(folder, {
    backend: 'local',
    predictor: asCommand(behaviour),
    space: { cpuCores: [1] },
    db: 'tune.db',
  })
  return {
    backend: await openBackend(experiment, 'e', await inspectMachine()),
    configuration: { cpuCores: 1 },
  }
}

backendContract('this machine', {
  open: () => open('serve'),
  openMortal: () => open('mortal'),
  leftovers: () => readdirSync(join(folder, 'running')),
})

const told = { predictor: { ...asCommand('serve'), reconfigure: 'set ${port} ${limit}' } }

test.each<[string, object, number, boolean, boolean]>([
  [
    'four cores: one for the load, one measured, two for the next',
    { space: { cpuCores: [1, 2] } },
    4,
    true,
    true,
  ],
  ['three cores are too few for that', { space: { cpuCores: [1, 2] } }, 3, true, false],
  [
    'one that runs is told the next values',
    { space: { cpuCores: [1, 2], limit: { values: [1, 2], category: 'server' } }, ...told },
    4,
    true,
    false,
  ],
  ['cores that nothing holds apart', { space: { cpuCores: [1, 2] } }, 4, false, false],
])(
  'the next server starts beside one that is measured: %s',
  async (_, file, cores, held, beside) => {
    const experiment = experimentIn(folder, {
      backend: 'local',
      predictor: asCommand('serve'),
      db: 'tune.db',
      ...file,
    })
    const { taskset, ...machine } = await inspectMachine()
    const affinity = Array.from({ length: cores }, (_, core) => core)
    const backend = await openBackend(experiment, 'e', {
      ...machine,
      affinity,
      ...(held && { taskset: '/usr/bin/taskset' }),
    })
    expect(backend.canLaunchAlongside?.([{ cpuCores: 1 }], { cpuCores: 2 }) ?? false).toBe(beside)
    await backend.close()
  },
)
