import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'

/** Stands for Infinity, which JSON lacks. */
const infiniteText = 'infinite'

/**
 * Results of a long benchmark, in a file with one line for each run. A line is written as its run
 * ends, so that an interrupted benchmark resumes.
 */
export class SavedRuns<Job, Score> {
  readonly #results = new Map<string, Score>()

  /** Without a file, results stay in memory. An incomplete last line is dropped. */
  constructor(private readonly file: string | undefined) {
    if (file === undefined || !existsSync(file)) return
    const text = readFileSync(file, 'utf8')
    const whole = text.slice(0, text.lastIndexOf('\n') + 1)
    if (whole !== text) writeFileSync(file, whole)
    for (const line of whole.split('\n').slice(0, -1)) {
      const { job, score } = JSON.parse(line, (_, value) =>
        value === infiniteText ? Number.POSITIVE_INFINITY : value,
      )
      this.#results.set(JSON.stringify(job), score)
    }
  }

  get(job: Job): Score | undefined {
    return this.#results.get(JSON.stringify(job))
  }

  add(job: Job, score: Score): void {
    this.#results.set(JSON.stringify(job), score)
    if (this.file === undefined) return
    const line = JSON.stringify({ job, score }, (_, value) =>
      value === Number.POSITIVE_INFINITY ? infiniteText : value,
    )
    appendFileSync(this.file, `${line}\n`)
  }
}
