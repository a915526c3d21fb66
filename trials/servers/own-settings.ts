/** Arguments and settings files of a user's own command for a server with a preset. */
import { resolve } from 'node:path'
import { BoundError, readText } from '../../profiler/bounded-reader.ts'

/** A settings file of the user's that tuned values cannot be merged into. */
export class SettingsFileError extends Error {}

export class OwnSettings {
  constructor(
    /** Program and arguments, filled. */
    private readonly words: readonly string[] = [],
    private readonly cwd = process.cwd(),
    /** Files that are written for the trial: absolute path → contents. */
    private readonly written: ReadonlyMap<string, string> = new Map(),
  ) {}

  /** The last value of an argument; '' for a switch; undefined if absent. */
  value(flag: string): string | undefined {
    const at = this.words.findLastIndex((word) => normaliseFlag(word) === normaliseFlag(flag))
    if (at < 0) return undefined
    const [, value] = /^[^=]*=(.*)$/s.exec(this.words[at]!) ?? []
    const next = this.words[at + 1]
    return value ?? (next === undefined || next.startsWith('-') ? '' : next)
  }

  has(...flags: readonly string[]): boolean {
    return flags.some((flag) => this.value(flag) !== undefined)
  }

  /**
   * The settings file of an argument, with its text; undefined if there is none.
   * @throws SettingsFileError if it cannot be read
   */
  file(flag: string): { readonly path: string; readonly text: string } | undefined {
    const named = this.value(flag)
    if (named === undefined || named === '') return undefined
    const path = resolve(this.cwd, named)
    const written = this.written.get(path)
    if (written !== undefined) return { path, text: written }
    try {
      return { path, text: readText(path, 'document') }
    } catch (error) {
      const why = error instanceof BoundError ? error.message : (error as Error).message
      throw new SettingsFileError(
        `cannot merge tuned values into ${named}, which ${flag} names: ${why}`,
      )
    }
  }
}

/** The words without an argument and its value. */
export function removeFlags(words: readonly string[], flags: readonly string[]): string[] {
  const plain = flags.map(normaliseFlag)
  const isFlag = (word: string | undefined) =>
    word !== undefined && plain.includes(normaliseFlag(word))
  return words.filter((word, i) => {
    const before = words[i - 1]
    const isValue = isFlag(before) && !before!.includes('=') && !word.startsWith('-')
    return !isFlag(word) && !isValue
  })
}

/** --max_num_seqs=4, --max-num-seqs and -max_num_seqs are the same. */
export const normaliseFlag = (word: string): string | undefined =>
  word.startsWith('-')
    ? word.replace(/=.*$/s, '').replace(/^-+/, '').replaceAll('_', '-')
    : undefined
