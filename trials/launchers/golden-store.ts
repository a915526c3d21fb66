/** Golden answers of an experiment, saved with its logs, so that a resumed run uses the same. */
import { renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { readText } from '../../profiler/bounded-reader.ts'
import { isRecord } from '../../profiler/plain-record.ts'
import type { GoldenAnswers } from '../../profiler/protocols/golden-answers.ts'
import { makePrivateFolder, privateFileMode } from '../private-files.ts'
import { LaunchError } from '../types.ts'

export class GoldenStore {
  private known: Map<string, GoldenAnswers> | undefined
  /** Keys whose answers are being collected. */
  private readonly pending = new Map<string, Promise<unknown>>()

  /** @param path absent: in memory only */
  constructor(private readonly path?: string) {}

  /**
   * Gets the answers of a key. The first caller collects them while the others wait.
   * @param collect resolves with undefined if there are none now
   * @throws LaunchError for a file that cannot be read or written
   */
  async get(
    key: string,
    collect: () => Promise<GoldenAnswers | undefined>,
  ): Promise<GoldenAnswers | undefined> {
    for (let others = this.pending.get(key); others !== undefined; others = this.pending.get(key))
      await others
    const cached = this.read().get(key)
    if (cached !== undefined) return cached
    const mine = collect()
    this.pending.set(
      key,
      mine.catch(() => undefined),
    )
    try {
      const golden = await mine
      if (golden !== undefined) this.write(key, golden)
      return golden
    } finally {
      this.pending.delete(key)
    }
  }

  private read(): Map<string, GoldenAnswers> {
    this.known ??= new Map(this.path === undefined ? [] : readStored(this.path))
    return this.known
  }

  private write(key: string, golden: GoldenAnswers): void {
    this.read().set(key, golden)
    if (this.path === undefined) return
    try {
      makePrivateFolder(dirname(this.path))
      writeFileSync(`${this.path}.new`, JSON.stringify([...this.read()]), { mode: privateFileMode })
      renameSync(`${this.path}.new`, this.path)
    } catch (error) {
      throw new LaunchError(
        `cannot save the golden answers: ${(error as Error).message}`,
        'check that the disk is neither full nor read-only',
      )
    }
  }
}

function readStored(path: string): [string, GoldenAnswers][] {
  try {
    const entries: unknown = JSON.parse(readText(path, 'data'))
    if (!Array.isArray(entries) || !entries.every(isEntry))
      throw new Error('not a list of golden answers')
    return entries
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw new LaunchError(
      `the golden answers in ${path} cannot be read: ${(error as Error).message}`,
      'delete the file: the next configuration records new answers',
      undefined,
      'experiment',
    )
  }
}

const isEntry = (entry: unknown): entry is [string, GoldenAnswers] =>
  Array.isArray(entry) &&
  typeof entry[0] === 'string' &&
  isRecord(entry[1]) &&
  typeof entry[1].source === 'string' &&
  isRecord(entry[1].configuration) &&
  Array.isArray(entry[1].random) &&
  Array.isArray(entry[1].answers) &&
  entry[1].answers.every(
    (answer) =>
      isRecord(answer) &&
      isRecord(answer.leaves) &&
      Object.values(answer.leaves).every(Array.isArray),
  )
