/**
 * A folder in which the real command line runs, watched: its memory, and every process that it
 * starts at whatever remove.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const cli = fileURLToPath(new URL('../../../dist/tuner/cli.js', import.meta.url))
const mark = 'TUNE_CHAOS_BOX'

export interface Ended {
  /**
   * Exit code; undefined for one that a signal ended, or that was ended because its time was up.
   */
  readonly code: number | undefined
  readonly stdout: string
  readonly stderr: string
  /** Peak of its resident memory. */
  readonly peakMiB: number
  readonly outOfTime: boolean
}

export interface Running {
  readonly child: ChildProcess
  readonly ended: Promise<Ended>
}

const looksEveryMs = 250
/** What a run that goes on for ever says is not kept for ever. */
const mostKept = 4 * 2 ** 20

export class ChaosBox {
  readonly folder: string

  constructor(parent = tmpdir()) {
    this.folder = mkdtempSync(join(parent, 'tune-chaos-'))
  }

  start(
    args: readonly string[],
    { env = {}, mostS = 240 }: { env?: Readonly<Record<string, string>>; mostS?: number } = {},
  ): Running {
    const child = spawn(process.execPath, [cli, ...args], {
      cwd: this.folder,
      env: { ...process.env, CI: '', NO_COLOR: '1', [mark]: this.folder, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const said = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const)
      child[name].on('data', (chunk: Buffer) => {
        said[name] = (said[name] + chunk.toString()).slice(-mostKept)
      })
    let peakMiB = 0
    let outOfTime = false
    const looks = setInterval(() => {
      peakMiB = Math.max(peakMiB, residentMiB(child.pid!))
    }, looksEveryMs)
    const late = setTimeout(() => {
      outOfTime = true
      child.kill('SIGKILL')
    }, mostS * 1000)
    const ended = new Promise<Ended>((resolve) => {
      child.on('close', (code) => {
        clearInterval(looks)
        clearTimeout(late)
        resolve({ code: code ?? undefined, ...said, peakMiB, outOfTime })
      })
    })
    return { child, ended }
  }

  /** Living processes of this box: their number, and what they are. */
  processes(): { readonly pid: number; readonly command: string }[] {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .flatMap((name) => {
        try {
          if (!readFileSync(`/proc/${name}/environ`, 'latin1').includes(`${mark}=${this.folder}`))
            return []
          if (/^State:\s+Z/m.test(readFileSync(`/proc/${name}/status`, 'latin1'))) return []
          return [
            {
              pid: Number(name),
              command: readFileSync(`/proc/${name}/cmdline`, 'latin1').replaceAll('\0', ' ').trim(),
            },
          ]
        } catch {
          return [] // It ended meanwhile, or is another user's.
        }
      })
  }

  /** What still lives after so long. */
  async leftAfter(seconds: number): Promise<string[]> {
    const untilMs = performance.now() + seconds * 1000
    while (this.processes().length > 0 && performance.now() < untilMs) await sleep(100)
    return this.processes().map(({ pid, command }) => `${pid} ${command}`)
  }

  /** Ends what is left of it, and removes it. */
  dispose(): void {
    for (const { pid } of this.processes()) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It ended by itself.
      }
    }
    rmSync(this.folder, { recursive: true, force: true })
  }
}

function residentMiB(pid: number): number {
  try {
    return (
      Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0) /
      1024
    )
  } catch {
    return 0
  }
}
