/**
 * Emulated predictors that share one GPU under MPS slow one another down: each tells the others,
 * through a file of its own in a folder that they have in common, until when it is busy. How much a
 * neighbour pulls is that of pairs on a V100 that were published (`trials/devices/mps-pull.ts`), of
 * every model and GPU alike: emulated, not measured.
 */
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { mpsPull } from '../../devices/mps-pull.ts'

export class Neighbours {
  readonly #folder: string
  readonly #share: number
  readonly #name = `${process.pid}-${++made}`
  readonly #file: number

  /** @param share of the GPU's threads, 0-1 */
  constructor(folder: string, share: number) {
    mkdirSync(folder, { recursive: true })
    this.#folder = folder
    this.#share = share
    this.#file = openSync(join(folder, this.#name), 'w')
  }

  /** How many times as long a batch takes that begins now: by those that are busy now. */
  slowdownAt(nowMs: number): number {
    const shares = readdirSync(this.#folder).map((name) =>
      name === this.#name ? 0 : this.#shareOf(name, nowMs),
    )
    return 1 + mpsPull.mean * shares.reduce((sum, share) => sum + share, 0)
  }

  /** A batch occupies the device until then. */
  tell(untilMs: number): void {
    const told = Float64Array.of(untilMs, this.#share)
    writeSync(this.#file, new Uint8Array(told.buffer), 0, told.byteLength, 0)
  }

  close(): void {
    closeSync(this.#file)
    rmSync(join(this.#folder, this.#name), { force: true })
  }

  /** 0 of one that is idle, or has ended: it took its file with it. */
  #shareOf(name: string, nowMs: number): number {
    try {
      const bytes = readFileSync(join(this.#folder, name))
      return bytes.byteLength >= 16 && nowMs < bytes.readDoubleLE(0) ? bytes.readDoubleLE(8) : 0
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
      throw error
    }
  }
}

/** Engines of this process. */
let made = 0
