/** Ports for predictors that need one in advance. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { LaunchError } from '../../types.ts'
import type { PredictorLog } from '../predictor-log.ts'
import { areListenersForeign, findServer, type GroupIdentity } from './processes.ts'

/** Handed out by this process and perhaps not yet bound: parallel launches get different ones. */
const handedOut = new Set<number>()

/**
 * Reserves a free port below the ephemeral range, so that no outgoing connection can take it before
 * the predictor binds. Another server still may; the launcher then retries with another port.
 * Release it with `release`.
 */
export const reservePort = async (host: string): Promise<{ port: number; release: () => void }> => {
  const [low, high] = readPortRange()
  const start = low + Math.floor(Math.random() * (high - low))
  for (let k = 0; k < high - low; k++) {
    const port = low + ((start - low + k) % (high - low))
    if (handedOut.has(port)) continue
    handedOut.add(port)
    if (await isFree(host, port)) return { port, release: () => handedOut.delete(port) }
    handedOut.delete(port)
  }
  throw new LaunchError(
    `no free port between ${low} and ${high - 1}`,
    'end programs that listen on these ports',
  )
}

/**
 * Ports to reserve from, below the system's ephemeral ports, which are for outgoing connections.
 */
const readPortRange = (): [number, number] => {
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
 * Finds a process of a stopped predictor that still listens on its port. Waits a moment for orphans
 * to notice the end of their parent.
 */
export const findRemainingListener = async (port: number, stopped: GroupIdentity) => {
  const findListener = () => (areListenersForeign(port, stopped) ? undefined : findServer(port))
  let listener = findListener()
  for (let waitedMs = 0; listener !== undefined && waitedMs < 1_000; waitedMs += 50) {
    await sleep(50)
    listener = findListener()
  }
  return listener
}

/**
 * Checks that no process of a stopped predictor listens on its port.
 * @throws LaunchError that names the process: it left its session, environment, output and control
 * group, so its owner is uncertain
 */
export const checkNoListenerLeft = async (
  port: number,
  stopped: GroupIdentity,
  { path }: PredictorLog,
): Promise<void> => {
  const listener = await findRemainingListener(port, stopped)
  if (listener === undefined) return
  throw new LaunchError(
    `process ${listener.pid} (${listener.words.join(' ').slice(0, 120)}) still listens on port ${port} after its predictor was stopped: it left the predictor's session and is in no control group of tune`,
    `end it (kill ${listener.pid}), and change the command to run its server in the foreground`,
    path,
    'experiment',
  )
}
