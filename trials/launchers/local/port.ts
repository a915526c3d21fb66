/** Ports for predictors that must be told theirs. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { LaunchError } from '../../types.ts'
import type { PredictorLog } from '../predictor-log.ts'
import { type GroupIdentity, serverOn, strangersOn } from './processes.ts'

/** Handed out by this process and perhaps not yet bound: parallel launches get different ones. */
const handedOut = new Set<number>()

/**
 * A port nobody listens on. Taken from below the range that the system gives to outgoing
 * connections, so that no client can take it between this look and the predictor's bind; another
 * server still may, which the launcher sees and tries another. Free it with `giveBack` once the
 * predictor is gone.
 */
export const reservePort = async (
  host: string,
): Promise<{ port: number; giveBack: () => void }> => {
  const [low, high] = portRange()
  const start = low + Math.floor(Math.random() * (high - low))
  for (let k = 0; k < high - low; k++) {
    const port = low + ((start - low + k) % (high - low))
    if (handedOut.has(port)) continue
    handedOut.add(port)
    if (await isFree(host, port)) return { port, giveBack: () => handedOut.delete(port) }
    handedOut.delete(port)
  }
  throw new LaunchError(
    `no free port between ${low} and ${high - 1}`,
    'end programs that listen on these ports',
  )
}

const portRange = (): [number, number] => {
  const highest = 32_768
  try {
    const ephemeral = Number(
      readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split(/\s+/)[0],
    )
    return ephemeral > 12_000 ? [10_000, Math.min(ephemeral, highest)] : [20_000, highest]
  } catch {
    // Not Linux: other systems begin at 32768 or 49152.
    return [20_000, highest]
  }
}

const isFree = (host: string, port: number): Promise<boolean> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' ? resolve(false) : reject(error),
    )
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(true)))
  })

/**
 * Who listens on the port of a predictor that was stopped, and is no stranger; waits a moment for
 * what loses its parent to see it.
 */
export const listensStill = async (port: number, stopped: GroupIdentity) => {
  const found = () => (strangersOn(port, stopped) ? undefined : serverOn(port))
  let left = found()
  for (let waitedMs = 0; left !== undefined && waitedMs < 1_000; waitedMs += 50) {
    await sleep(50)
    left = found()
  }
  return left
}

/**
 * Nothing that a predictor started listens on its port once it has been stopped.
 * @throws LaunchError that names the process: it left its session, environment, output and control
 * group, so that nothing says for certain whose it is
 */
export const checkLeft = async (
  port: number,
  stopped: GroupIdentity,
  { path }: PredictorLog,
): Promise<void> => {
  const left = await listensStill(port, stopped)
  if (left === undefined) return
  throw new LaunchError(
    `process ${left.pid} (${left.words.join(' ').slice(0, 120)}) still listens on port ${port} after its predictor was stopped: it left the predictor's session and is in no control group of tune`,
    `end it (kill ${left.pid}), and change the command to run its server in the foreground`,
    path,
    'experiment',
  )
}
