/** Questions on a terminal; without one, every answer is empty. */
import { createInterface } from 'node:readline/promises'

export interface Asker {
  /**
   * The answer without its spaces; '' where there is nobody to ask, or nothing was said. @throws
   * the signal's reason
   */
  say(question: string): Promise<string>
  close(): void
}

/** @param interrupt what Ctrl-C at a question does: the terminal sends no signal while a line is read. After Ctrl-D, the end of what is said, nothing is asked. */
export function asker(wanted: boolean, signal: AbortSignal, interrupt: () => void): Asker {
  if (!wanted || !process.stdin.isTTY || !process.stderr.isTTY)
    return { say: async () => '', close: () => {} }
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const ended = new AbortController()
  lines.on('SIGINT', interrupt)
  lines.on('close', () => ended.abort())
  const say = async (question: string): Promise<string> => {
    signal.throwIfAborted()
    if (ended.signal.aborted) return ''
    try {
      return (
        await lines.question(`${question}: `, { signal: AbortSignal.any([signal, ended.signal]) })
      ).trim()
    } catch (error) {
      process.stderr.write('\n')
      signal.throwIfAborted()
      if (ended.signal.aborted) return ''
      throw error
    }
  }
  return { say, close: () => lines.close() }
}
