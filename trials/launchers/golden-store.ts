/**
 * Golden answers of an experiment, kept beside its logs: a resumed run holds its trials against the
 * same ones.
 */
import { renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { readText } from '../../profiler/bounded-reader.ts'
import { isRecord } from '../../profiler/plain-record.ts'
import type { GoldenAnswers } from '../../profiler/protocols/golden-answers.ts'
import { makePrivateFolder, privateFile } from '../private-files.ts'
import { LaunchError } from '../types.ts'

export class GoldenStore {
  private known: Map<string, GoldenAnswers> | undefined
  /** Of each key: who takes the answers now. */
  private readonly taking = new Map<string, Promise<unknown>>()

  /** @param path absent: kept in memory alone */
  constructor(private readonly path?: string) {}

  /**
   * Those of a key; taken by the first who asks, while the others wait.
   * @param take resolves with undefined where there are none to be had now
   * @throws LaunchError for a file that cannot be read or written
   */
  async get(
    key: string,
    take: () => Promise<GoldenAnswers | undefined>,
  ): Promise<GoldenAnswers | undefined> {
    for (let others = this.taking.get(key); others !== undefined; others = this.taking.get(key))
      await others
    const known = this.read().get(key)
    if (known !== undefined) return known
    const mine = take()
    this.taking.set(
      key,
      mine.catch(() => undefined),
    )
    try {
      const golden = await mine
      if (golden !== undefined) this.write(key, golden)
      return golden
    } finally {
      this.taking.delete(key)
    }
  }

  private read(): Map<string, GoldenAnswers> {
    this.known ??= new Map(this.path === undefined ? [] : stored(this.path))
    return this.known
  }

  private write(key: string, golden: GoldenAnswers): void {
    this.read().set(key, golden)
    if (this.path === undefined) return
    try {
      makePrivateFolder(dirname(this.path))
      writeFileSync(`${this.path}.new`, JSON.stringify([...this.read()]), { mode: privateFile })
      renameSync(`${this.path}.new`, this.path)
    } catch (error) {
      throw new LaunchError(
        `cannot save the golden answers: ${(error as Error).message}`,
        'check that the disk is neither full nor read-only',
      )
    }
  }
}

function stored(path: string): [string, GoldenAnswers][] {
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
  typeof entry[1].of === 'string' &&
  isRecord(entry[1].configuration) &&
  Array.isArray(entry[1].random) &&
  Array.isArray(entry[1].answers) &&
  entry[1].answers.every(
    (answer) =>
      isRecord(answer) &&
      isRecord(answer.leaves) &&
      Object.values(answer.leaves).every(Array.isArray),
  )
