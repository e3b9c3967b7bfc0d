/**
 * Addresses that must never be reached, in every notation that some parser reads as one of them, in every
 * form of URL that some parser takes apart differently. Made by rule, so that a gap is a line to add here.
 */

type Octets = [number, number, number, number];

const V4: Octets[] = [
  [127, 0, 0, 1],
  [127, 8, 9, 10],
  [0, 0, 0, 0],
  [10, 0, 0, 1],
  [172, 16, 0, 1],
  [192, 168, 1, 1],
  [169, 254, 169, 254],
  [169, 254, 170, 2],
  [100, 64, 0, 1],
  [100, 100, 100, 200],
  [168, 63, 129, 16],
  [192, 0, 0, 192],
  [198, 18, 0, 1],
  [224, 0, 0, 251],
  [255, 255, 255, 255],
];

const numberOf = ([a, b, c, d]: Octets): number => a * 2 ** 24 + b * 2 ** 16 + c * 2 ** 8 + d;
const hex = (value: number, width = 0) => value.toString(16).padStart(width, "0");

const RADIX = {
  decimal: (part: number) => String(part),
  hex: (part: number) => `0x${hex(part)}`,
  HEX: (part: number) => `0X${hex(part).toUpperCase()}`,
  octal: (part: number) => `0${part.toString(8)}`,
  padded: (part: number) => `0000${part.toString(8)}`,
};

const WIDE = "０１２３４５６７８９";
const CIRCLED = "⓪①②③④⑤⑥⑦⑧⑨";
const digits = (text: string, set: string) => text.replace(/\d/g, (digit) => [...set][Number(digit)]!);
const percent = (text: string) =>
  [...Buffer.from(text)].map((byte) => `%${hex(byte, 2).toUpperCase()}`).join("");

/** One IPv4 address as resolvers and URL parsers read it. */
function v4Notations(octets: Octets): string[] {
  const [a, b, c, d] = octets;
  const dotted = octets.join(".");
  const whole = numberOf(octets);
  const radixes = Object.values(RADIX);
  const mixed = radixes.flatMap((first) =>
    radixes.map((last) => `${first(a)}.${RADIX.decimal(b)}.${RADIX.hex(c)}.${last(d)}`),
  );
  return [
    ...radixes.map((write) => octets.map(write).join(".")),
    ...radixes.map((write) => write(whole)),
    ...radixes.map((write) => `${write(a)}.${write(whole % 2 ** 24)}`),
    ...radixes.map((write) => `${write(a)}.${write(b)}.${write(whole % 2 ** 16)}`),
    ...mixed,
    `${dotted}.`,
    `${dotted}..`,
    `.${dotted}`,
    percent(dotted),
    dotted.replaceAll(".", "%2e"),
    dotted.replaceAll(".", "。"),
    dotted.replaceAll(".", "．"),
    dotted.replaceAll(".", "｡"),
    digits(dotted, WIDE),
    digits(dotted, CIRCLED),
    `${dotted}%00`,
    `${dotted}%0d%0a`,
    `${dotted}%09`,
    `\u00ad${dotted}`,
    `${dotted}\u200b`,
    `${a + 256}.${b}.${c}.${d}`,
  ];
}

/** The IPv6 addresses that lead to an IPv4 one, or look like it. */
function v6Notations(octets: Octets): string[] {
  const dotted = octets.join(".");
  const [a, b, c, d] = octets;
  const high = hex(a * 256 + b);
  const low = hex(c * 256 + d);
  return [
    `[::ffff:${dotted}]`,
    `[::FFFF:${dotted}]`,
    `[::ffff:${high}:${low}]`,
    `[0:0:0:0:0:ffff:${high}:${low}]`,
    `[0000:0000:0000:0000:0000:ffff:${high.padStart(4, "0")}:${low.padStart(4, "0")}]`,
    `[::${dotted}]`,
    `[::${high}:${low}]`,
    `[::ffff:0:${dotted}]`,
    `[64:ff9b::${dotted}]`,
    `[64:ff9b:1::${high}:${low}]`,
    `[2002:${high}:${low}::]`,
    `[2002:${high}:${low}::1]`,
    `[2001:0:${high}:${low}::1]`,
    `[fe80::5efe:${dotted}]`,
    `[::5efe:${high}:${low}]`,
    `[::ffff:${dotted}%25eth0]`,
    `[::ffff:${dotted}%eth0]`,
  ];
}

const V6 = `
::1 :: 0:0:0:0:0:0:0:1 0000:0000:0000:0000:0000:0000:0000:0001 ::0001 0::1 ::2 1::1 4000::1 fc00::1 fd00::1
fd00:ec2::254 fd00:0ec2:0:0:0:0:0:254 FD00:EC2::254 fd20:ce::254 fd00:c1::a9fe:a9fe fe80::1 fe80::1%25lo fe80::a9fe:a9fe
fec0::1 ff02::1 ff05::2 2001:db8::1 2001::1 2001:10::1 2001:20::1 3fff::1 5f00::1 100::1 100:0:0:1::1 e000::1 8000::1
`
  .trim()
  .split(/\s+/)
  .map((address) => `[${address}]`);

const NAMES = `
localhost LOCALHOST Localhost localhost. LocalHost. foo.localhost a.b.localhost. ｌｏｃａｌｈｏｓｔ loc%61lhost ⓛocalhost
metadata metadata. METADATA metadata.google.internal Metadata.Google.Internal. metadata%2egoogle%2einternal
instance-data instance-data.ec2.internal intranet db redis kubernetes kubernetes.default.svc printer.local
wiki.internal router.home.arpa host.docker.internal ip6-localhost broadcasthost
`
  .trim()
  .split(/\s+/);

/** Names of the public kind, which a resolver that means harm answers with any of the addresses above. */
export const REBINDING_NAMES = `
127.0.0.1.nip.io 7f000001.nip.io localtest.me lvh.me spoofed.burpcollaborator.net 169.254.169.254.sslip.io
make-127-0-0-1-rr.1u.ms www.example.com xn--e1afmkfd.example example.com.
`
  .trim()
  .split(/\s+/);

/** Forms that hold `host` where the one or the other parser finds it. */
const everyForm = (host: string, port: number): string[] => [
  `http://${host}:${port}/`,
  `https://${host}:${port}/`,
  `http://${host}/`,
  `HTTP://${host}:${port}/x?y=z`,
];

const oddForms = (host: string, port: number): string[] => [
  `http:${host}:${port}/`,
  `http:/${host}:${port}/`,
  `http:///${host}:${port}/`,
  `http:////${host}:${port}/`,
  `http:\\\\${host}:${port}\\`,
  `http:/\\${host}:${port}/`,
  `//${host}:${port}/`,
  `${host}:${port}`,
  ` http://${host}:${port}/`,
  `http://${host}:${port}/ `,
  `ht\ttp://${host}:${port}/`,
  `http://\n${host}:${port}/`,
  `http://${host}:${port}/#@www.example.com/`,
  `http://${host}:${port}?@www.example.com/`,
  `http://www.example.com@${host}:${port}/`,
  `http://www.example.com:80@${host}:${port}/`,
  `http://www.example.com%40${host}:${port}/`,
  `http://user:secret@${host}:${port}/`,
  `http://www.example.com\\@${host}:${port}/`,
  `http://${host}:${port}\\@www.example.com/`,
  `http://${host}:${port}%23@www.example.com/`,
  `http://${host}:${port}/%0d%0aHost:%20www.example.com`,
  `http://${host}:${port}\r\nX: y/`,
  `http://${host}: ${port}/`,
  `http://${host}:0${port}/`,
  `http://${host}:${port + 65_536}/`,
  `http://[${host}]:${port}/`,
  `http://(${host}):${port}/`,
  `http://${host},www.example.com:${port}/`,
  `http://${host};www.example.com:${port}/`,
  `ftp://${host}:${port}/`,
  `file://${host}/etc/passwd`,
  `gopher://${host}:${port}/_GET%20/`,
  `dict://${host}:${port}/info`,
  `ws://${host}:${port}/`,
  `jar:http://${host}:${port}/!/`,
  `url:http://${host}:${port}/`,
  `javascript:fetch("http://${host}:${port}/")`,
  `data:text/html,http://${host}:${port}/`,
  `blob:http://${host}:${port}/1`,
  `http+unix://${host}:${port}/`,
];

/** Every string once; `port` is where the canaries listen. */
export function corpus(port: number): string[] {
  const hosts = [
    ...V4.flatMap((octets) => [...v4Notations(octets), ...v6Notations(octets)]),
    ...V6,
    ...NAMES,
  ];
  const main = [
    "127.0.0.1",
    "[::1]",
    "localhost",
    "169.254.169.254",
    "2130706433",
    "[::ffff:7f00:1]",
    "10.0.0.1",
  ];
  return [
    ...new Set([
      ...hosts.flatMap((host) => everyForm(host, port)),
      ...main.flatMap((host) => oddForms(host, port)),
    ]),
  ];
}

/** Every address, as a resolver would answer it. */
export const resolved = (): { address: string; family: number }[] => [
  ...V4.map((octets) => ({ address: octets.join("."), family: 4 })),
  ...V4.map((octets) => ({ address: `::ffff:${octets.join(".")}`, family: 6 })),
  ...V6.filter((host) => !host.includes("%")).map((host) => ({ address: host.slice(1, -1), family: 6 })),
];
