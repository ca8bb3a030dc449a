Tracing... Output every 2 secs. Hit Ctrl-C to end

19:47:10 loadavg: 0.43 0.10 0.03 2/63 186

PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms
181    dd               R 254 16  vdb         80     320   0.95
184    dd               R 254 16  vdb         80     320   0.57
179    dd               W 254 16  vdb         20     320   2.33

19:47:12 loadavg: 0.43 0.10 0.03 1/63 190

PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms
187    dd               R 254 16  vdb         80     320   0.83
188    fstrim           D 254 16  vdb         12   54479   0.15
22     kworker/u4:1-wb  W 254 16  vdb          7       7   7.94

19:47:14 loadavg: 0.40 0.10 0.03 2/63 195

PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms
193    dd               R 254 16  vdb         80     320   1.34
191    dd               W 254 16  vdb         20     320   4.69
194    dd               W 254 16  vdb         20     320   6.78

19:47:16 loadavg: 0.40 0.10 0.03 2/63 200

PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms
196    dd               R 254 16  vdb         80     320   4.47
199    dd               R 254 16  vdb         80     320   3.65
197    dd               W 254 16  vdb         20     320   1.26

19:47:18 loadavg: 0.53 0.13 0.04 1/63 203

PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms
200    fstrim           D 254 16  vdb         11    5924   0.13
7      kworker/u4:0-wb  W 254 16  vdb          5       6   6.26
163    jbd2/vdb-8       F 254 16  vdb          2       0   4.64

19:47:18 loadavg: 0.53 0.13 0.04 3/63 203

PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms
Detaching...
