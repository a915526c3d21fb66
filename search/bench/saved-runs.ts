import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'

/** JSON has no infinity. */
const INFINITE = 'infinite'

/**
 * Runs of a benchmark that is done in pieces: a file of one line each, written as each ends, so
 * that an interrupted one goes on where it stood.
 */
export class SavedRuns<Job, Score> {
  readonly #known = new Map<string, Score>()

  /** Without a file what is added is remembered alone. A last line that was cut off is dropped. */
  constructor(private readonly file: string | undefined) {
    if (file === undefined || !existsSync(file)) return
    const text = readFileSync(file, 'utf8')
    const whole = text.slice(0, text.lastIndexOf('\n') + 1)
    if (whole !== text) writeFileSync(file, whole)
    for (const line of whole.split('\n').slice(0, -1)) {
      const { job, score } = JSON.parse(line, (_, value) =>
        value === INFINITE ? Number.POSITIVE_INFINITY : value,
      )
      this.#known.set(JSON.stringify(job), score)
    }
  }

  get(job: Job): Score | undefined {
    return this.#known.get(JSON.stringify(job))
  }

  add(job: Job, score: Score): void {
    this.#known.set(JSON.stringify(job), score)
    if (this.file === undefined) return
    const line = JSON.stringify({ job, score }, (_, value) =>
      value === Number.POSITIVE_INFINITY ? INFINITE : value,
    )
    appendFileSync(this.file, `${line}\n`)
  }
}
