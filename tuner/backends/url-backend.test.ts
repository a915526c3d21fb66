import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import { openBackend } from '../run/assemble.ts'
import { backendContract } from './backend.contract.ts'
import { asUrl, type Behaviour, experimentIn, type Served, serve } from './testing/served.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-url-backend-'))
const servers: Served[] = []
afterAll(async () => {
  await Promise.all(servers.map((server) => server.stop()))
  rmSync(folder, { recursive: true, force: true })
})

const open = async (behaviour: Behaviour) => {
  const server = await serve(behaviour)
  servers.push(server)
  const experiment = experimentIn(folder, { backend: 'local', predictor: asUrl(server.port) })
  return { backend: await openBackend(experiment, 'e', await inspectMachine()), configuration: {} }
}

backendContract('a server that runs already', {
  open: () => open('serve'),
  openMortal: () => open('mortal'),
  leftovers: async () => {
    const [{ port }] = servers as [Served]
    return (await fetch(`http://127.0.0.1:${port}/healthz`)).ok ? [] : ['the server was ended']
  },
})
