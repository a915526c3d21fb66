/**
 * What `--out` says: a folder, and programs that the run is told to. Light: the command line's help
 * needs it.
 */
import { outputKinds } from './names.ts'

/**
 * `--out` as entries of the file: a folder, or KIND=URL; several of them with a comma and a space
 * between. What looks like KIND=URL of a kind that there is not is left for the schema to refuse.
 */
export function readOut(value: string): {
  readonly out?: string
  readonly send?: Readonly<Record<string, string>>
} {
  const folders: string[] = []
  const sent: Record<string, string> = {}
  for (const part of value.split(', ')) {
    const [, kind, url] = /^([A-Za-z][\w-]*)=(.*)$/s.exec(part) ?? []
    const known = outputKinds.some((name) => name === kind)
    if (kind !== undefined && url !== undefined && (known || url.includes('://'))) sent[kind] = url
    else folders.push(part)
  }
  return {
    ...(folders.length > 0 && { out: folders.join(', ') }),
    ...(Object.keys(sent).length > 0 && { send: sent }),
  }
}
