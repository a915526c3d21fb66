/**
 * 'Name: value' of a flag in its parts; undefined for what is no header. ':authority: name', as
 * HTTP/2 and grpcurl call it, is the header Host.
 */
export function headerOf(
  text: string,
): { readonly name: string; readonly value: string } | undefined {
  const [, authority] = /^:authority:\s*(.*)$/i.exec(text) ?? []
  if (authority !== undefined) return { name: 'Host', value: authority }
  const [, name, value] = /^([!#$%&'*+.^_`|~\w-]+):\s*(.*)$/.exec(text) ?? []
  return name === undefined || value === undefined || name === '__proto__'
    ? undefined
    : { name, value }
}

/** What is said of text that is none: its name alone, for the value may be secret. */
export const noHeader = (text: string): string =>
  `'${text.split(':')[0]}' is not a header: write 'Name: value'`
