/** Reads what a page of the documentation asks its tests to do. Pure. */

/** One line of a ```sh block. */
export interface Command {
  /** As the page has it, without its comment. */
  readonly line: string
  /** Arguments of `tune`, without `tune` itself. */
  readonly words: readonly string[]
  /** File that `> NAME` sends stdout to. */
  readonly redirect?: string
  /** From a comment `# exits with N`; otherwise the command has to succeed. */
  readonly exitCode?: number
  /** The ```text block behind the command: what it prints. */
  readonly output?: Output
}

export interface Output {
  readonly text: string
  /** Line of the page that the text begins at, from 0. */
  readonly firstLine: number
}

/** What a test does with a page, in the page's order. */
export type Step = { readonly section: string } & (
  | { readonly kind: 'command'; readonly command: Command }
  /** `<!-- file: NAME -->`: write the block to NAME. */
  | { readonly kind: 'file'; readonly name: string; readonly text: string }
  /** `<!-- written: NAME -->`: the commands so far wrote these lines to NAME. */
  | { readonly kind: 'written'; readonly name: string; readonly text: string }
)

interface Block {
  readonly language: string
  readonly text: string
  readonly firstLine: number
  readonly mark?: { readonly kind: string; readonly name: string }
  /** Whether only blank lines stand between this block and the one before. */
  readonly followsBlock: boolean
  readonly section: string
}

/** Set-up is what runs the tests, so no test runs it. */
export const setUpAndCheck = 'npm ci && npm run check'
export const setUpAndTune = 'npm ci && npm start --'

/** @throws Error for a line of an ```sh block that is no `tune` command */
export function readSteps(markdown: string): Step[] {
  const blocks = readBlocks(markdown)
  const steps = blocks.flatMap((block, i): Step[] => {
    const { section, mark, text } = block
    if (mark) return [{ section, kind: mark.kind as 'file' | 'written', name: mark.name, text }]
    if (block.language !== 'sh') return []
    const next = blocks[i + 1]
    const output =
      next?.language === 'text' && next.followsBlock && !next.mark
        ? { text: next.text, firstLine: next.firstLine }
        : undefined
    const commands = readCommands(text)
    return commands.map((command, j) => ({
      section,
      kind: 'command',
      command: j === commands.length - 1 && output ? { ...command, output } : command,
    }))
  })
  return [...writeExperimentFirst(blocks), ...steps]
}

/** Without a mark, the first ```yaml block of a page is its reader's experiment.yaml. */
function writeExperimentFirst(blocks: readonly Block[]): Step[] {
  const first = blocks.find(({ language }) => language === 'yaml')
  if (first === undefined || first.mark) return []
  if (blocks.some(({ mark }) => mark?.name === 'experiment.yaml')) return []
  return [{ section: first.section, kind: 'file', name: 'experiment.yaml', text: first.text }]
}

function readBlocks(markdown: string): Block[] {
  const blocks: Block[] = []
  const lines = markdown.split('\n')
  let section = ''
  let mark: Block['mark']
  let followsBlock = false
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i]!
    const [, indent = '', language] = /^( *)```([\w-]*)/.exec(line) ?? []
    if (language !== undefined) {
      const end = lines.findIndex((other, j) => j > i && other.trim() === '```')
      if (end < 0) throw new Error(`the block of line ${i + 1} does not end`)
      const text = lines.slice(i + 1, end).map((one) => withoutIndent(one, indent))
      const body = text.map((one) => `${one}\n`).join('')
      blocks.push({ language, text: body, firstLine: i + 1, mark, followsBlock, section })
      followsBlock = true
      mark = undefined
      i = end
      continue
    }
    if (line.trim() === '') continue
    const [, kind, name] = /^ *<!-- (file|written): (\S+) -->$/.exec(line) ?? []
    mark = kind === undefined ? undefined : { kind, name: name! }
    followsBlock = false
    if (/^##+ /.test(line)) section = line.replace(/^#+ /, '').trim()
  }
  return blocks
}

const withoutIndent = (line: string, indent: string) =>
  line.startsWith(indent) ? line.slice(indent.length) : line.trimStart()

/** @throws Error for a line that is no `tune` command */
function readCommands(block: string): Command[] {
  return block
    .replaceAll(/ *\\\n */g, ' ')
    .split('\n')
    .flatMap((full) => {
      const line = full.replace(/(^|\s+)#.*$/, '').trim()
      if (line === '' || line === setUpAndCheck) return []
      const [typed = '', redirect] = line.replace(setUpAndTune, 'tune').split(' > ')
      const [program, ...words] = readWords(typed)
      if (program !== 'tune') throw new Error(`no tune command in a sh block: ${line}`)
      const [, exitCode] = /#.*\bexits with (\d+)/.exec(full) ?? []
      return [
        {
          line,
          words,
          ...(redirect !== undefined && { redirect: redirect.trim() }),
          ...(exitCode !== undefined && { exitCode: Number(exitCode) }),
        },
      ]
    })
}

/** Words of a command line as a shell reads them: quotes, no substitution. */
const readWords = (line: string): string[] =>
  [...line.matchAll(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g)].map(([word]) =>
    word.replaceAll(/'([^']*)'|"([^"]*)"/g, (_, single, double) => single ?? double),
  )
