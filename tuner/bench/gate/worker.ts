/** Does what the gate hands it, one piece at a time: a process of its own for each core. */
import { virtualParts } from './parts.ts'
import type { Cases, Piece } from './types.ts'

export interface Done {
  readonly cases: Cases
  /** Of this piece. */
  readonly cpuSeconds: number
}

process.on('message', async ({ part, index }: Piece) => {
  const before = process.cpuUsage()
  const cases = await virtualParts.find(({ name }) => name === part)!.run(index)
  const { user, system } = process.cpuUsage(before)
  const done: Done = { cases, cpuSeconds: (user + system) / 1e6 }
  process.send!(done)
})
