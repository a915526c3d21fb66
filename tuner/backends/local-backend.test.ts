import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import { openBackend } from './assemble.ts'
import { backendContract } from './backend.contract.ts'
import { asCommand, type Behaviour, experimentIn } from './testing/served.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-local-backend-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const open = async (behaviour: Behaviour) => {
  const experiment = experimentIn(folder, { backend: 'local', predictor: asCommand(behaviour), space: { cpuCores: [1] }, db: 'tune.db' })
  return { backend: await openBackend(experiment, 'e', await inspectMachine()), configuration: { cpuCores: 1 } }
}

backendContract('this machine', {
  open: () => open('serve'),
  openMortal: () => open('mortal'),
  leftovers: () => readdirSync(join(folder, 'running')),
})
