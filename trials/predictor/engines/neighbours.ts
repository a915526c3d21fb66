/**
 * Emulated predictors that share one GPU under MPS slow one another down: each tells the others, through a file of its own in a folder that they have in common, how busy it has been.
 * How much a neighbour pulls is that of pairs on a V100 that were published (`trials/devices/mps-pull.ts`), of every model and GPU alike: emulated, not measured.
 */
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { mpsPull } from '../../devices/mps-pull.ts'

/** Over which it is reckoned how busy one is; what is told is old after it. */
const windowMs = 1000

export class Neighbours {
  readonly #folder: string
  readonly #share: number
  readonly #name = `${process.pid}-${++made}`
  readonly #file: number
  #busy = 0
  #toldAtMs = 0
  #lookedAtMs = Number.NEGATIVE_INFINITY
  #slowdown = 1

  /** @param share of the GPU's threads, 0-1 */
  constructor(folder: string, share: number) {
    mkdirSync(folder, { recursive: true })
    this.#folder = folder
    this.#share = share
    this.#file = openSync(join(folder, this.#name), 'w')
  }

  /** How many times as long a batch takes that begins now. */
  slowdownAt(nowMs: number): number {
    if (nowMs - this.#lookedAtMs < windowMs / 10) return this.#slowdown
    this.#lookedAtMs = nowMs
    const pulls = readdirSync(this.#folder).map((name) => (name === this.#name ? 0 : this.#pullOf(name, nowMs)))
    this.#slowdown = 1 + mpsPull.mean * pulls.reduce((sum, pull) => sum + pull, 0)
    return this.#slowdown
  }

  /** A batch occupied the device. */
  tell(nowMs: number, busyMs: number): void {
    const passed = Math.min(windowMs, nowMs - this.#toldAtMs)
    this.#busy = Math.max(0, this.#busy * (1 - passed / windowMs)) + busyMs / windowMs
    this.#toldAtMs = nowMs
    const told = Float64Array.of(nowMs, this.#share * Math.min(1, this.#busy))
    writeSync(this.#file, new Uint8Array(told.buffer), 0, told.byteLength, 0)
  }

  close(): void {
    closeSync(this.#file)
    rmSync(join(this.#folder, this.#name), { force: true })
  }

  /** Share × busy; 0 of one that has told nothing lately. */
  #pullOf(name: string, nowMs: number): number {
    const path = join(this.#folder, name)
    // One that has ended takes its file with it.
    const bytes = existsSync(path) ? readFileSync(path) : Buffer.alloc(0)
    if (bytes.byteLength < 16) return 0
    const [toldAtMs, pull] = [bytes.readDoubleLE(0), bytes.readDoubleLE(8)]
    return Math.abs(nowMs - toldAtMs) < windowMs ? pull : 0
  }
}

/** Engines of this process. */
let made = 0
